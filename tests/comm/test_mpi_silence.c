/* test_mpi_silence.c: how long a rank of MPI may be silent: a process of this machine that is
 * neither ended nor stopped waits for a processor, and gets longer. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/mpi/mpi_private.h"
#include "kit/kit.h"

enum { NO_MACHINE = -1, THIS_MACHINE = 3 }; /* a peer's pidfd */

static double silence_of(pid_t pid, int pidfd) {
    peer other = {.pidfd = pidfd, .pid = pid};
    const state s = {.options = {.silence = 6}, .peers = &other, .size = 1};
    return mnem__mpi_silence(&s, 0);
}

static void await_state(pid_t pid, int options) {
    int status;
    assert_int_equal(waitpid(pid, &status, options), pid);
}

static void only_a_process_that_runs_gets_longer(void **unused) {
    (void)unused;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        for (;;) pause();
    assert_true(silence_of(pid, NO_MACHINE) == 6);
    assert_true(silence_of(pid, THIS_MACHINE) == 60);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    await_state(pid, WUNTRACED);
    assert_true(silence_of(pid, THIS_MACHINE) == 6);
    assert_int_equal(kill(pid, SIGCONT), 0);
    await_state(pid, WCONTINUED);
    assert_true(silence_of(pid, THIS_MACHINE) == 60);
    assert_int_equal(kill(pid, SIGKILL), 0);
    await_state(pid, 0);
    assert_true(silence_of(pid, THIS_MACHINE) == 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_a_process_that_runs_gets_longer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

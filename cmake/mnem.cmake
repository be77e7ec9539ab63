# One function per thing that the project builds.

set(MNEM_WARNINGS -Wall -Wextra -Wshadow -Wvla -Wpointer-arith -Wstrict-prototypes
    -Wmissing-prototypes -Wwrite-strings -Wundef)

# Of libraries; those with sanitizers get some symbols from the program.
set(MNEM_NO_UNDEFINED -Wl,--no-undefined)
if(MNEM_SANITIZE)
  set(MNEM_NO_UNDEFINED)
endif()

function(mnem_flags target)
  target_compile_options(${target} PRIVATE -fno-math-errno -ffp-contract=off)
  # gcc warns wrongly about instrumented code.
  if(NOT MNEM_SANITIZE OR NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE ${MNEM_WARNINGS})
  endif()
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  if(MNEM_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(MNEM_FUZZ) # what the fuzzer steers by
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link ${MNEM_FUZZ_FLAGS})
  endif()
  if(MNEM_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MNEM_SANITIZE} -fno-omit-frame-pointer)
    # A finding of UBSan is one instruction, SIGILL, not a call with a message: a sixth less to compile
    # and less to run. ASan prints the line and the stack (handle_sigill=2). Its check of pointer
    # arithmetic refuses NULL + 0, which names a part of an operand that is not there; what is read or
    # written through a wrong pointer, ASan finds.
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=all)
    else()
      target_compile_options(${target} PRIVATE -fno-sanitize=pointer-overflow
                                               -fsanitize-trap=undefined)
      foreach(kind address thread) # which gcc defines
        if(MNEM_SANITIZE MATCHES ${kind})
          string(TOUPPER ${kind} upper)
          target_compile_definitions(${target} PRIVATE __SANITIZE_${upper}__=1)
        endif()
      endforeach()
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${MNEM_SANITIZE})
  endif()
endfunction()

# An object library that is a layer, or one level of its kernels; src/ is its include root.
function(mnem_objects target)
  add_library(${target} OBJECT)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                             C_VISIBILITY_PRESET default)
  mnem_flags(${target})
endfunction()

# What the sources of a level are compiled with: flags, and what lanes.h goes by.
set(MNEM_LEVEL_plain_FLAGS $<$<CONFIG:Release>:-O2>) # -O3 unrolls every lane: a third more bytes
set(MNEM_LEVEL_plain_DEFINES MNEM__LANES=0)
set(MNEM_LEVEL_avx2_FLAGS -mavx2 -mfma -mf16c)
set(MNEM_LEVEL_avx2_DEFINES MNEM__LANES=2)
set(MNEM_LEVEL_avx512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c)
set(MNEM_LEVEL_avx512_DEFINES MNEM__LANES=512)
set(MNEM_LEVEL_avx512_bf16_FLAGS ${MNEM_LEVEL_avx512_FLAGS} -mavx512bf16)
set(MNEM_LEVEL_avx512_bf16_DEFINES MNEM__LANES=512 MNEM__PAIRS)

# gcc takes 0.4 s for <immintrin.h>, and 1.5 s to precompile it: from four sources on that is less.
# Clang (the sanitizers, clang-tidy) compiles without, so that a source must include it itself.
function(mnem__precompile_intrinsics target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(headers ${target} PRECOMPILE_HEADERS)
  list(LENGTH sources count)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND count GREATER 3 AND NOT headers
     AND NOT target MATCHES "_plain$")
    target_precompile_headers(${target} PRIVATE <immintrin.h>)
  endif()
endfunction()

# mnem_kernels(LAYER LEVELS levels SOURCES files), before the layer: each file once for each level
# (base/cpu.h), where the processor is of a kind that has it. MNEM__LEVEL is the level's name.
function(mnem_kernels layer)
  cmake_parse_arguments(ARG "" "" "LEVELS;SOURCES" ${ARGN})
  foreach(level ${ARG_LEVELS})
    set(target mnem_${layer}_${level})
    if(NOT level STREQUAL "plain" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      continue()
    elseif(NOT TARGET ${target})
      mnem_objects(${target})
      target_compile_options(${target} PRIVATE ${MNEM_LEVEL_${level}_FLAGS})
      target_compile_definitions(${target} PRIVATE MNEM__LEVEL=${level}
                                                   ${MNEM_LEVEL_${level}_DEFINES})
      set_property(GLOBAL APPEND PROPERTY MNEM_TARGETS_${layer} ${target})
    endif()
    target_sources(${target} PRIVATE ${ARG_SOURCES})
    mnem__precompile_intrinsics(${target})
  endforeach()
endfunction()

# The objects of some layers and of their kernels.
function(mnem_layer_objects out)
  foreach(layer ${ARGN})
    get_property(targets GLOBAL PROPERTY MNEM_TARGETS_${layer})
    foreach(target ${targets})
      list(APPEND objects $<TARGET_OBJECTS:${target}>)
    endforeach()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# mnem_layer(NAME USES lower layers SOURCES files [LIBRARIES imported targets])
# Its includes are checked by scripts/check_layers.
function(mnem_layer name)
  cmake_parse_arguments(ARG "" "" "USES;SOURCES;LIBRARIES" ${ARGN})
  mnem_objects(mnem_${name})
  target_sources(mnem_${name} PRIVATE ${ARG_SOURCES})
  target_link_libraries(mnem_${name} PRIVATE ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY MNEM_LAYERS ${name})
  set_property(GLOBAL APPEND PROPERTY MNEM_TARGETS_${name} mnem_${name})
  set_property(GLOBAL APPEND PROPERTY MNEM_LIBRARIES ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY MNEM_LIBRARIES_${name} ${ARG_LIBRARIES})

  # The link check: the layer and the lower layers that it declares must need nothing else.
  foreach(layer ${name} ${ARG_USES})
    get_property(layer_libraries GLOBAL PROPERTY MNEM_LIBRARIES_${layer})
    list(APPEND link_libraries ${layer_libraries})
  endforeach()
  mnem_layer_objects(link_objects ${name} ${ARG_USES})
  add_library(mnem_link_${name} MODULE EXCLUDE_FROM_ALL ${link_objects})
  target_link_libraries(mnem_link_${name} PRIVATE ${link_libraries} Threads::Threads m)
  target_link_options(mnem_link_${name} PRIVATE -Wl,--no-undefined)
  set_property(GLOBAL APPEND PROPERTY MNEM_LINK_CHECKS mnem_link_${name})
endfunction()

# The target check_link_layers, after every layer.
function(mnem_link_check)
  get_property(checks GLOBAL PROPERTY MNEM_LINK_CHECKS)
  add_custom_target(check_link_layers DEPENDS ${checks})
endfunction()

# libmnem from every layer: static for the tool and the tests, shared (only mnem_* visible) for users.
function(mnem_library)
  get_property(layers GLOBAL PROPERTY MNEM_LAYERS)
  get_property(libraries GLOBAL PROPERTY MNEM_LIBRARIES)
  mnem_layer_objects(objects ${layers})
  add_library(mnem_static STATIC ${objects})
  add_library(mnem_shared SHARED ${objects})
  foreach(target mnem_static mnem_shared)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME mnem)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:include>)
    if(MNEM_SANITIZE)
      target_link_options(${target} PUBLIC -fsanitize=${MNEM_SANITIZE})
    endif()
  endforeach()
  target_link_libraries(mnem_static PUBLIC ${libraries} Threads::Threads m)
  target_link_libraries(mnem_shared PRIVATE ${libraries} Threads::Threads m)
  # Below 1.0 each minor version may change what is public, so it is part of the soname.
  set(soversion ${PROJECT_VERSION_MAJOR})
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion 0.${PROJECT_VERSION_MINOR})
  endif()
  set_target_properties(mnem_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
                                               EXPORT_NAME mnem)
  target_link_options(mnem_shared PRIVATE
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map ${MNEM_NO_UNDEFINED})
  mnem_wheel_library("${objects}" "${libraries}")
endfunction()

# The library of a wheel, which has no links: the same objects as one file, with PCRE2 inside where there
# is an archive, as other systems may have none.
function(mnem_wheel_library objects libraries)
  find_library(MNEM_WHEEL_PCRE2 libpcre2-8.a)
  mark_as_advanced(MNEM_WHEEL_PCRE2)
  if(MNEM_WHEEL_PCRE2)
    list(TRANSFORM libraries REPLACE "^PkgConfig::PCRE2$" "${MNEM_WHEEL_PCRE2}")
  endif()
  add_library(mnem_wheel SHARED EXCLUDE_FROM_ALL ${objects})
  set_target_properties(mnem_wheel PROPERTIES OUTPUT_NAME mnem
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/wheel-library)
  target_link_libraries(mnem_wheel PRIVATE ${libraries} Threads::Threads m)
  target_link_options(mnem_wheel PRIVATE
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map ${MNEM_NO_UNDEFINED}
                      -Wl,--exclude-libs,ALL)
endfunction()

# libmnem-mpi, beside libmnem, which links no MPI.
function(mnem_mpi_library)
  if(NOT TARGET mnem_comm_mpi)
    return()
  endif()
  add_library(mnem_mpi SHARED $<TARGET_OBJECTS:mnem_comm_mpi>)
  set_target_properties(mnem_mpi PROPERTIES OUTPUT_NAME mnem-mpi EXPORT_NAME mpi)
  get_target_property(soversion mnem_shared SOVERSION)
  set_target_properties(mnem_mpi PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
  target_link_libraries(mnem_mpi PUBLIC mnem_shared MPI::MPI_C)
  target_link_options(mnem_mpi PRIVATE
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map ${MNEM_NO_UNDEFINED})
endfunction()

# A source that names one of these uses threads, ranks, a server, a disk or a clock: the order of events
# then depends on the machine's load, and the test gets the label timing (docs/testing.md).
set(MNEM_TIMING "pthread|thread_local|threads *=|_threads\\(|mnem/comm|comm/|mpirun|tool_server|http_client|live_serve|fake_serve|serve_bench|serve_case|serve_ranks|sleep\\(|clock_|base/clock|poll\\(|waitpid|full_disk|swap_path|pread|openpty|forkpty|tool_run_on|monitor|trainer_case")

# mnem__timing(OUT files): whether one of the sources is such a one.
function(mnem__timing out)
  set(${out} OFF PARENT_SCOPE)
  foreach(source ${ARGN})
    if(source MATCHES "[.]c$")
      file(STRINGS ${source} uses REGEX "${MNEM_TIMING}" LIMIT_COUNT 1)
      if(uses)
        set(${out} ON PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# What a test is compiled with: sight of the private headers and of the kit (tests/kit).
function(mnem__test_flags target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE mnem_test_kit ${ARGN})
  string(COMPARE NOTEQUAL "${MNEM_SANITIZE}" "" sanitized)
  target_compile_definitions(${target} PRIVATE MNEM_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                             MNEM_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data"
                             MNEM_SANITIZED=$<BOOL:${sanitized}>)
  mnem_flags(${target})
  # A third less time to compile. Those of operators keep -O3: what they compare with runs long.
  get_target_property(sources ${target} SOURCES)
  list(GET sources 0 first)
  get_filename_component(first ${first} ABSOLUTE)
  if(NOT first MATCHES "^${PROJECT_SOURCE_DIR}/tests/ops/")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# mnem__test_objects(OUT FILES files LIBRARIES libraries): the object files of sources that several
# tests share. Each source is compiled once, by the first test that names it.
function(mnem__test_objects out)
  cmake_parse_arguments(ARG "" "" "FILES;LIBRARIES" ${ARGN})
  set(objects)
  foreach(file ${ARG_FILES})
    if(file MATCHES "^[$]|^${PROJECT_SOURCE_DIR}/(src|tools)/") # with flags of this test
      list(APPEND objects ${file})
      continue()
    endif()
    get_filename_component(file ${file} ABSOLUTE)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${file})
    string(MAKE_C_IDENTIFIER ${name} name)
    if(NOT TARGET shared_${name})
      add_library(shared_${name} OBJECT ${file})
      mnem__test_flags(shared_${name} ${ARG_LIBRARIES})
    endif()
    list(APPEND objects $<TARGET_OBJECTS:shared_${name}>)
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# mnem_test(NAME SOURCES files LABELS labels): one binary of tests. The first source is its own; the
# others may be shared with other tests.
function(mnem_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  list(POP_FRONT ARG_SOURCES own)
  mnem__test_objects(objects FILES ${ARG_SOURCES} LIBRARIES ${ARG_LIBRARIES})
  add_executable(${name} ${own} ${objects})
  mnem__test_flags(${name} ${ARG_LIBRARIES})
  add_test(NAME ${name} COMMAND ${name})
  mnem__timing(timing ${own} ${ARG_SOURCES})
  if(timing)
    list(APPEND ARG_LABELS timing)
  endif()
  # The timeout ends a test that hangs: no test takes that long, not even beside four busy loops.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1800 ENVIRONMENT
                       "ASAN_OPTIONS=allow_user_segv_handler=0:handle_sigill=2;MNEM_HISTORY=off")
endfunction()

"""The process's budget: one ledger, which the first LLM creates."""
import ctypes as C
import threading

from . import _declarations as D
from ._library import OverBudget, check, lib
from ._tables import Ledger


class Budget:
    """The process's ledger: created by the first LLM, kept until the process ends."""

    lock = threading.Lock()
    ledger = None

    @classmethod
    def take(cls, size):
        with cls.lock:
            try:
                if cls.ledger is None:
                    made = C.POINTER(D.mnem_ledger)()
                    options = D.mnem_ledger_options(budget_bytes=size, preparing=True)
                    check(lib.mnem_ledger_create_process(C.byref(options), C.byref(made)))
                    cls.ledger = made
                elif size:
                    check(lib.mnem_ledger_budget_set(cls.ledger, size))
            except OverBudget as refusal:
                refusal.budget = size
                raise
            return cls.ledger

    @classmethod
    def ledger_now(cls):
        info = D.mnem_ledger_info()
        lib.mnem_ledger_info_get(cls.ledger, C.byref(info))
        accounts = []
        while True:
            account = D.mnem_account_info()
            if not lib.mnem_ledger_account_get(cls.ledger, len(accounts), C.byref(account)):
                return Ledger(info, accounts)
            accounts.append(account)

"""The programs of ``examples/loom`` as Python kernels, a module for each.

A module has ``arguments(random)``, small arguments of the program; ``twin(*arguments)``, the results by Python kernels;
``expected(*arguments)``, what NumPy or plain Python gives in twice the precision, ``None`` for a result that it leaves
out; and ``dim(*arguments)`` where the program is the body of a thread.
"""

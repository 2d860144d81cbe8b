"""A process that has imported what several chapters import, once, and forks for each of them: its
runner, and the kernel beside it.

To import torch, pandas and matplotlib takes a kernel longer than all else that it does before a
chapter's first line. Of clcore nothing is kept across the fork: a kernel reads this tree's files
when the chapter asks for them, as its key has it, and after the file of Python that is to be first.

Linux, the CPU and one thread alone: a fork copies no other thread, and none of a CUDA context. If
the process cannot be had, or something that it imports has a word to say, which a chapter would
show, every chapter has processes of its own.
"""

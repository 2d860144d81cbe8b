"""Marking notebooks: each runs in its own process, and another process judges its answers.

The process of a notebook (`clcore.book.grading.notebook`) has no judge, and hands over values and,
for a function, what it returns for inputs that the judge draws (`clcore.book.grading.wire`). So
nothing that a notebook replaces in its process changes a mark. Nothing is imported here: that
process begins by importing this package, and must not get the judges so.
"""

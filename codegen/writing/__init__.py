"""Stage 10, writing: make the folder of generated code equal to the given files.

In: a folder and {path: text}. Out: the folder, changed all or nothing. The stage is `folder.write`.
"""

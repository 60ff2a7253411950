"""Stage 9, writing: the folder of generated code is brought to exactly the given files.

In: a folder and {path: text}. Out: the folder, changed all or nothing. The stage is `folder.write`.
"""

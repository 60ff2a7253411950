"""Stage 1, reading: files become values with their positions.

In: paths of YAML files and of folders of Python files. Out: entries (`TextMap`) whose every word knows its line and
column, and the functions of Python files as syntax trees. The stage is `yaml_files.load_entries`.
"""

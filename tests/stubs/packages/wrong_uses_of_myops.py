"""Each line that ends in `# E: code | rule` is wrong: mypy reports `code` there, pyright `rule`."""

from __future__ import annotations

import myops

import gradloom

x = gradloom.ones(3)
myops.sofabs(x)  # E: attr-defined | reportAttributeAccessIssue
myops.softabs("x")  # E: arg-type | reportArgumentType
myops.softabs(x, ep=0.1)  # E: call-arg | reportCallIssue
myops.rolling_mean(x)  # E: call-arg | reportCallIssue
print(myops.bounds(x, [0]).middle)  # E: attr-defined | reportAttributeAccessIssue
myops.methods_of(x).rolling_mean(2)  # E: attr-defined | reportAttributeAccessIssue
myops.methods_of(3)  # E: arg-type | reportArgumentType
x.softabs()  # E: attr-defined | reportAttributeAccessIssue

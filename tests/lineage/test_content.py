"""The content of a definition: changes of writing that keep it, and changes that do not."""

import pytest
from support.small_jobs import root


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    x = 1\n    return x", "def f():\n    y: int = 1\n    return y"),
        ("def f(s):\n    return [x for x in s]", "def f(s):\n    return [y for y in s]"),
        ("def f():\n    x = 1\n    return lambda: x", "def f():\n    y = 1\n    return lambda: y"),
        ("def f():\n    g = 1\n    return g\ndef g(): pass", "def f():\n    x = 1\n    return x"),
        ("import numpy as np\ndef f():\n    return np.ones(1)", "import numpy\ndef f():\n    return numpy.ones(1)"),
        ("from math import pi\ndef f():\n    return pi", "def f():\n    import math\n    return math.pi"),
        ("def f():\n    try: pass\n    except E as e: e()", "def f():\n    try: pass\n    except E as x: x()"),
        ("X: int = 1\ndef f():\n    return X", "Y = 1\ndef f():\n    return Y"),
        ("from rtm.core.errors import E\ndef f(): return E", "from rtm.core import errors\ndef f(): return errors.E"),
        ("class C:\n    def m(self): C\ndef f(): return C", "class D:\n    def m(self): D\ndef f(): return D"),
    ],
)  # fmt: skip
def test_the_same(before: str, after: str) -> None:
    others = {"core.errors": "class E: pass"}
    assert root({"a": before, **others}) == root({"a": after, **others})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x):\n    return x", "def f(y):\n    return y"),  # a caller may use the name
        ("def f(s):\n    a, b = s\n    return a - b", "def f(s):\n    a, b = s\n    return b - a"),
        ("g = 2\ndef f():\n    return g", "g = 2\ndef f():\n    g = g\n    return g"),
        ("def f():\n    x = 1\n    return locals()", "def f():\n    y = 1\n    return locals()"),
        ("def f():\n    x = 1\n    return eval('x')", "def f():\n    y = 1\n    return eval('x')"),
        ("def f():\n    class C:\n        x = 1\n    return C", "def f():\n    class C:\n        y = 1\n    return C"),
        ("X = 1\ndef f():\n    global X\n    X = 2", "X = 1\ndef f():\n    X = 2"),
        (
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    return x",
            "def f():\n    x = 1\n    def g():\n        x = 2\n    g()\n    return x",
        ),
        ("x = 1\nclass C:\n    x = x\ndef f(): return C", "x = 2\nclass C:\n    x = x\ndef f(): return C"),
        ("x = 1\ndef f(s): return [x for x in s] + x", "x = 2\ndef f(s): return [x for x in s] + x"),
        ("x = 1\ndef f(s): return [x for y in x]", "x = 1\ndef f(s): return [y for y in x]"),
        ("from math import pi as x\ndef f(): return x", "from math import tau as x\ndef f(): return x"),
        ("def f(a):\n    return a.x", "def f(a):\n    return a.y"),
        ("def f(a):\n    return a(x=1)", "def f(a):\n    return a(y=1)"),
        ("def f(): return max", "def max(): pass\ndef f(): return max"),
        ("X, Y = 1, 2\ndef f(): return X", "X, Y = 1, 2\ndef f(): return Y"),
        ("def f(x): return lambda y: x", "def f(x): return lambda y: y"),
        ("def f(x):\n    match x:\n        case [a, b]: a()", "def f(x):\n    match x:\n        case [a, b]: b()"),
        ("def f(c):\n    if c: from math import pi as x\n    else: from math import tau as x\n    return x",
         "def f(c):\n    if c: from math import tau as x\n    else: from math import pi as x\n    return x"),
        ("class f(NamedTuple):\n    x: int", "class f(NamedTuple):\n    x: str"),
        ("from rtm.core.errors import E\ndef f(): return E", "from rtm.core.errors import F\ndef f(): return F"),
    ],
)  # fmt: skip
def test_not_the_same(before: str, after: str) -> None:
    others = {"errors": "class E: pass\nclass F: pass"}
    assert root({"a": before, **others}) != root({"a": after, **others})

"""What a YAML file from elsewhere may hold: ways to run something, to break generated code, or to take for ever."""


def _lines(text: str) -> list[str]:
    """One attack a line; a line that starts with `## ` names the class of those below it."""
    return [line for line in text.strip("\n").split("\n") if not line.startswith("## ")]


# Names of operators, arguments, results and nodes: Python's own, generated code's own, derived ones, look-alikes.
NAMES = [
    *"""class None True lambda from in is __debug__ __class__ __init__ __x _ __ exec eval print open any tuple len float
    int object type xp ops fn state flags new Tensor grads given edges out self self_ self_t self_p x_t input axis dim
    result result_ result0 grad grad_result grad_input_mask records needs_self edge_self self_sym_sizes values indices
    kernels_elementwise mul mul_Tensor _MUL mul_wrapper MulBackward0 aminmax_result Node unpack wrap error asarray
    SavedVariable MISSING e t r nr os.system ../x a-b""".split(),
    "a b",
    "x" * 300,
    "\uff53elf",
    "\U0001d4ee\U0001d4cd\U0001d4ee\U0001d4ec",
    "\u0456f",
    "a\u0301",
]

DEFAULTS = [
    *"""None True inf -inf nan 1e999 -1 0x10 1_0 [] [1,2] [[1]] "" '' '\"""+print()+\"""' "\\n" 'a\\' Mean long
    strided print __import__ 1j () 1.5 .5 1. contiguous_format""".split(),
    "'\\N{DIGIT ONE}'",
    "'{{ 1 }}'",
    "'{% raw %}'",
    "'# x'",
    "'x' 'y'",
    "[" * 40,
    "9" * 30,
    "9" * 5000,
]

# Whole formulas and kernel expressions.
EXPRESSIONS = [
    *_lines(
        r'''
## functions of Python that run, read or look around
__import__('os').system('true')
eval('1')
exec('1')
open('/etc/passwd')
compile('1', '', 'eval')
getattr(self, 'data')
globals()
vars()
type(self)
breakpoint()
input()
help()
print(self)
id(self)
## modules
os
os.system('true')
sys.modules
math.pi
math.sqrt(self)
math.__loader__
math.factorial(10**8) * grad
linalg.inv
linalg.__dict__
linalg.inv.__globals__
special.os
elementwise
elementwise.mul
elementwise.__dict__
elementwise.os
elementwise.mul.__globals__
elementwise._x(self)
own.f
## from an object to its class, and from there to everything
self.__class__
self.__class__.__mro__[1].__subclasses__()
self.__init__.__globals__['os']
().__class__.__bases__
[x for x in (1).__class__.__mro__]
grad.__reduce__()
grad.__torch_function__
xp.linalg.inv.__wrapped__
xp.where.__self__
xp.sin.__globals__
xp.add.__class__
xp.__builtins__
f'{self}'
f'{self.__class__}'
'{0.__class__}'.format(self)
self.tobytes().decode().format(self)
'%s' % self
b'a'
## what NumPy reads and writes files with
xp.load('x')
xp.save('x', self)
xp.savez('x')
xp.fromfile('x')
xp.memmap('x')
xp.loadtxt('x')
xp.genfromtxt('/etc/passwd')
xp.DataSource('http://x')
xp.lib.npyio.DataSource('x')
xp.lib.format.read_array(self)
xp.ctypeslib.load_library('x', '.')
xp.testing.runstring('1', {})
self.tofile('x')
self.dump('x')
## callbacks
xp.frompyfunc(print, 1, 1)(self)
xp.vectorize(print)(self)
xp.apply_along_axis(print, 0, self)
xp.piecewise(self, [self > 0], [print])
xp.fromfunction(print, (2,))
xp.array2string(self, formatter={'all': print})
xp.set_printoptions(formatter={'all': print})
xp.seterrcall(print)
xp.errstate(call=print)
xp.info(print)
min([1], key=print)
sorted([grad], key=print)
list(map(print, [1]))
any(print(x) for x in [1])
grad.register_hook(print)
grad.apply_(print)
self.map_(self, print)
(lambda: self)()
## the rest of NumPy
xp
xp.core
xp._core.multiarray
xp.linalg.linalg
xp.linalg.lapack_lite
xp.fft.helper
xp.f2py
xp.os
xp.sys
xp.char
xp.r_['1']
xp.random.seed(0)
xp.seterr(all='raise')
xp.array(self, dtype='O')
xp.array(self, dtype=object)
xp.object_(self)
xp.asarray(self).view('O')
xp.einsum('i->', self)
xp.pad(self, 1, self)
self.astype('O')
self.dtype.type
self.ctypes
self.base
self.data
self.__array_interface__
self.__dlpack__()
self.item()
self.tolist()
## writes to arguments
xp.copyto(self, 0)
xp.put(self, 0, 0)
xp.place(self, self, self)
xp.fill_diagonal(self, 0)
xp.add(self, self, self)
xp.add.at(self, 0, 1)
xp.sin(self, out=self)
xp.sum(self, 0, None, self)
self.setflags(write=True)
grad.mul_(2)
grad.zero_()
self.copy_(grad)
self.requires_grad_()
grad.share_memory_()
## autograd's own, and tensors from outside
self.backward()
self._grad_fn
self.grad_fn
grad.untyped_storage()
fn.next_edges
state.flags
unpack(grad, fn)
new(Tensor)
ops.mul(self, self)
from_numpy(grad)
frombuffer(grad)
load('x')
save(grad)
## memory and time
'a' * 10 ** 10
9 ** 9 ** 9
1 << 10 ** 10
(0,) * 10 ** 10
10 ** 10000
self if 9 ** 9 ** 9 else self
1e999
zeros(9 ** 99)
grads[9 ** 9]
wrap_opt_if(grad, 9 ** 9 ** 9)
## statements, and expressions that change names
import os
import os; os.system('true')
self; import os
del self
assert self
self = other
(y := self)
yield self
(yield)
await self
[t async for t in self]
[self for self in self]
[xp for xp in self]
[grad for grad in self]
## unpacking, calls and constants in odd places
*self
**self
f(*self)
f(**self)
zeros((1,), **grad.options())
zeros((1,), **self)
mul(grad, other=grad, **{})
{'a': self}
{self}
{x: x for x in self}
(x for x in self)
[x for x in self for y in x]
[t.shape for t in tensors]
[self.shape for _ in self]
(1)(self)
self(1)
self.T()
self.sum
1[0]
'a'[0]
self['a']
self[1:2, ...]
self == other
self is 1
1 is None
1 if self
self if other else
self and
self,
self, self
()
(self,)
[self]
''
'a'
1
1.5j
True
None
...
self.real.real
grad.to(dtype='x')
dtype
grads[-1]
grads[self]
grad_input_mask[99]
wrap_opt_if(self, True)
auto_linear + 1
## text that would leave a string, a comment or a template
self # x
self \
"""
\'\'\'
grad + """
grad \'\'\'
'"""'
'\x41'
'\N{DIGIT ONE}'
'\\'
not_implemented(\'\'\'x\'\'\')
not_implemented('a\nb')
not_implemented(f'{grad}')
not_implemented('{{ x }}')
{{ 7 * 7 }}
{% for x in y %}
{# x #}
grad {{ self }}
{{ ''.__class__ }}
'''.replace(r"\'\'\'", "'" * 3)
    ),
    # several lines, characters that are not what they look like, and too much of everything
    "self\nimport os",
    "self \\\nself",
    "self\\\nself",
    "\uff58\uff50.sin(self)",
    "self.\uff44\uff54\uff59\uff50\uff45",
    "gr\u0430d",
    "\U0001d4f0rad",
    "grad\u200b",
    "grad\u00a0* 2",
    "grad \u2028 * 2",
    "grad * \u0967",
    "grad\x00",
    "grad\x0c",
    "x" * 3000,
    "9" * 1500,
    "0x" + "f" * 1500,
    "-" * 300 + "self",
    "not " * 300 + "self",
    "(" * 60 + "self" + ")" * 60,
    "[" * 60,
    "self" + ".T" * 300,
    "self" + "[0]" * 300,
    "self" + " + self" * 300,
]

# Whole schemas, and what stands in the place of a name with parts.
SCHEMAS = [
    *_lines(
        r"""
f
f()
f() -> ()
f(Tensor self)
f(Tensor self) -> Tensor
f(Tensor self) -> Tensor; x
os::system(Tensor self) -> Tensor
aten::mul.Tensor(Tensor self) -> Tensor
mul.Tensor(Tensor self, Tensor other) -> Tensor
f.g.h(Tensor self) -> Tensor
../f(Tensor self) -> Tensor
f(Tensor self, Tensor self) -> Tensor
f(Tensor(a!) self) -> Tensor(a!)
f_(Tensor(a!) self) -> Tensor(a!)
f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
f(Tensor self, *, Tensor(a!) out, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))
f(Tensor self, str s='{{ x }}') -> Tensor
f(Tensor self, int[2] d=[1,2,3]) -> Tensor
__init__(Tensor self) -> Tensor
__and__.Tensor(Tensor self, Tensor other) -> Tensor
elementwise.mul
elementwise.mul; import os
../../x.y
a.b.c
mul_, mul_, mul.out
CopyBackwards
class
class X:
"""
    ),
    "f(Tensor self) -> Tensor\nimport os",
    "elementwise.mul\n",
    "nn\nimport os",
    'f(str s=\'"""\') -> Tensor',
    "f(Tensor \uff53elf) -> Tensor",
    "\u1d70(Tensor self) -> Tensor",
    "f(" + "Tensor a, " * 500 + "int b) -> Tensor",
    "f(" + ", ".join(f"Tensor a{i}" for i in range(300)) + ") -> Tensor",
    "f(Tensor" + "[]" * 30 + " a) -> Tensor",
    "f(Tensor self) -> (" + ", ".join(["Tensor"] * 200) + ")",
]

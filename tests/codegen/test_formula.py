"""The formula language: what it accepts, what it makes of names, and that nothing else gets in.

Every error with its whole message is in errors/; here are positions, limits and what must never happen.
"""

import ast

import pytest
from hypothesis import given, strategies as st

from gradloom.codegen.language.formula import MAX_DEPTH, MAX_LENGTH, FormulaError, parse
from gradloom.codegen.language.names import resolve
from gradloom.codegen.language.saving import write_backward, write_forward
from gradloom.codegen.language.scope import Callables, Helper, Kind, Role, Scope, Variable, describe_operators
from gradloom.codegen.schema import parse as parse_schema

OPERATORS = """
exp(Tensor self) -> Tensor
where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
expand(Tensor(a) self, int[] size) -> Tensor(a)
sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor
zeros(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor
full(int[] size, Scalar fill_value, *, ScalarType? dtype=None, Device? device=None) -> Tensor
zeros_like(Tensor self, *, ScalarType? dtype=None, MemoryFormat? memory_format=None) -> Tensor
full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor
max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
t(Tensor(a) self) -> Tensor(a)
linalg_inv(Tensor A) -> Tensor
zero_(Tensor(a!) self) -> Tensor(a!)
"""


def callables(*helpers):
    rows = []
    for line in OPERATORS.split("\n"):
        if line:
            module = "linalg" if line.startswith("linalg") else ""
            rows.append((parse_schema(line), ("function", "method"), module))
    known = {name: Helper(name, "reduction") for name in helpers}
    return Callables(known, describe_operators(rows))


def scope_of(schema, helpers=(), **extra):
    """The arguments of a schema, `grad` and `result`, without the rest of what `backward_scope` adds."""
    found = parse_schema(schema)
    variables = {"grad": Variable("grad", Kind.TENSOR, Role.GRADIENT)}
    kinds = {"Tensor": Kind.TENSOR, "Scalar": Kind.NUMBER, "int": Kind.NUMBER, "ScalarType": Kind.DTYPE}
    for a in found.inputs:
        kind = kinds.get(a.type.base.name, Kind.OTHER)
        if a.type.is_list:
            kind = Kind.TENSORS if kind is Kind.TENSOR else Kind.NUMBERS
        variables[a.name] = Variable(a.name, kind, Role.ARGUMENT, a.name, a.type)
    variables["result"] = Variable("result", Kind.TENSOR, Role.RESULT, "result", found.returns[0].type)
    return Scope(variables, {}, callables(*helpers), **extra)


F = "f(Tensor self, Tensor? bias, Tensor[] tensors, Tensor?[] indices, int dim, Scalar alpha) -> Tensor"


def written(text, schema=F, helpers=("helper",)):
    """The formula as generated code has it, and {field: read} of what it saves."""
    result = write_backward(resolve(parse(text), scope_of(schema, helpers)), ("self",))
    ast.parse(result.text, mode="eval")
    return result.text, {c.name: c.read for c in result.captures}


def test_a_formula_keeps_its_spelling():
    text, saved = written("grad*(self  *alpha) + helper( grad,x = 'a' )")
    assert text == "grad * (self * alpha) + helper(grad, x='a')"  # it had two blanks, so it was written anew
    assert written("grad*(self *alpha)")[0] == "grad*(self *alpha)"
    assert saved == {"self": "self", "alpha": "alpha"}


@pytest.mark.parametrize(
    "text, word",
    [
        ("grad * (self", "("),
        ("grad * self)", ")"),
        ("grad @ [self)", ")"),
        ("grad ** ", "**"),
        ("grad self", "self"),
        ("grad if self", "if"),
        ("helper(grad,, self)", ","),
        ("grad = self", "="),
        ("import os", "import"),
        ("grad + lambda: 1", "lambda"),
        ("grad; self", ";"),
        ("std::exp(grad)", "::"),
        ("grad && self", "&&"),
        ("grad ? self : 1", "?"),
        ("grad->exp()", "->"),
        ("grad # self", "#"),
        ("grad * 'one", "'one"),
        ('grad * f"{self}"', "f"),
        ("grad * \u00d7", "\u00d7"),
        ("grad\u00a0* self", "\u00a0"),
        ("helper('\u00e9')", "\u00e9"),
        ("grad.__class__.__bases__", "__class__"),
        ("__builtins__", "__builtins__"),
        ("[g for g in (h for h in self)]", "(h for h in self)"),
        ("helper(*self)", "*self"),
        ("{1: 2}", "{1: 2}"),
        ("(x := grad)", ":="),
        ("grad()()", "grad()"),
        ("", " "),
    ],
)
def test_errors_are_under_the_word(text, word):
    with pytest.raises(FormulaError) as caught:
        parse(text)
    error = caught.value
    assert (text + " ")[error.offset : error.offset + error.length] == word
    assert error.hint


def test_positions_count_leading_blanks_and_line_breaks():
    with pytest.raises(FormulaError) as caught:
        parse("  grad *\n    __import__('os')\n")
    assert caught.value.offset == len("  grad *\n    ")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "-" * (MAX_LENGTH - 1) + "x",
        "x" + ".real" * 300,
        "x" + "[0]" * 300,
        "not " * 400 + "x",
        "x" + " if x else x" * 100,
        "x" + "+x" * MAX_DEPTH,
        "9" * MAX_LENGTH + "9",
        "x" * 10_000_000,
    ],
    ids=len,
)
def test_nesting_and_length_have_a_limit(text):
    with pytest.raises(FormulaError):
        parse(text)


@given(st.text(alphabet="grad self()[]{},.*+-<>=!?:;#'\"\\\n01_if else for in not lambda", max_size=60))
def test_every_text_is_a_formula_or_an_error_inside_it(text):
    try:
        formula = parse(text)
    except FormulaError as error:
        assert 0 <= error.offset <= len(text)
        assert error.message
    else:
        assert ast.dump(ast.parse(text.replace("\n", " ").strip(), mode="eval").body) == ast.dump(formula.tree)


@pytest.mark.parametrize(
    "text, field, read",
    [
        ("grad.expand(self.shape)", "self_sym_sizes", "self.shape"),
        ("grad.expand(self.size())", "self_sym_sizes", "self.shape"),
        ("grad.expand(self.sizes())", "self_sym_sizes", "self.shape"),
        ("grad.expand(self.sym_sizes())", "self_sym_sizes", "self.shape"),
        ("grad * self.size(1)", "self_sym_argsize_1", "self.shape[1]"),
        ("grad * self.sym_size(-1)", "self_sym_argsize_minus_1", "self.shape[-1]"),
        ("grad * self.shape[-2]", "self_sym_argsize_minus_2", "self.shape[-2]"),
        ("grad * self.size(dim)", "self_sym_argsize_dim", "self.shape[dim]"),
        ("helper(grad, self.stride())", "self_sym_strides", "self.stride()"),
        ("helper(grad, self.sym_strides())", "self_sym_strides", "self.stride()"),
        ("grad / self.numel()", "self_sym_numel", "self.numel()"),
        ("grad / self.sym_numel()", "self_sym_numel", "self.numel()"),
        ("helper(grad, self.dim())", "self_dim", "self.dim()"),
        ("helper(grad, self.ndim)", "self_dim", "self.dim()"),
        ("helper(grad, self.dtype)", "self_scalar_type", "self.dtype"),
        ("helper(grad, self.scalar_type())", "self_scalar_type", "self.dtype"),
        ("helper(grad, self.device)", "self_device", "self.device"),
        ("helper(grad, self.layout)", "self_layout", "self.layout"),
        ("helper(grad, self.storage_offset())", "self_sym_storage_offset", "self.storage_offset()"),
        ("helper(grad, result.shape)", "result_sym_sizes", "result.shape"),
        ("helper(grad, len(tensors))", "tensors_size_", "len(tensors)"),
        ("helper(grad, [x.shape for x in tensors])", "tensors_args_sym_sizes", "[t.shape for t in tensors]"),
        ("helper(grad, [x.dtype for x in tensors])", "tensors_args_scalar_type", "[t.dtype for t in tensors]"),
        (
            "helper(grad, [x.dim() for x in indices])",
            "indices_args_dim",
            "[None if t is None else t.dim() for t in indices]",
        ),
        ("helper(grad, bias.shape)", "bias_sym_sizes_opt", "None if bias is None else bias.shape"),
        ("helper(grad, bias is not None)", "bias_is_none", "bias is None"),
    ],
)
def test_metadata_alone_is_saved_instead_of_the_tensor(text, field, read):
    rewritten, saved = written(text)
    assert saved[field] == read
    assert not saved.keys() & {"self", "bias", "tensors", "indices", "result"}
    assert field in rewritten


@pytest.mark.parametrize(
    "text, rewritten",
    [
        ("grad if self.is_complex() else grad.t()", "grad if self_scalar_type.is_complex else grad.t()"),
        ("grad * self.size(dim + 1)", "grad * self_sym_sizes[dim + 1]"),
        ("grad * self.shape[1:][0]", "grad * self_sym_sizes[1:][0]"),
        ("helper(grad, bias is not None)", "helper(grad, not bias_is_none)"),
        ("helper(grad, **self.options())", "helper(grad, dtype=self_scalar_type, device=self_device)"),
        ("zeros((2,), **grad.options())", "ops.zeros((2,), dtype=grad.dtype, device=grad.device)"),
        ("zeros_like(self)", "ops.zeros(self_sym_sizes, dtype=self_scalar_type, device=self_device)"),
        (
            "full_like(self, alpha, dtype=grad.dtype)",
            "ops.full(self_sym_sizes, alpha, dtype=grad.dtype, device=self_device)",
        ),
        ("where(self, grad, linalg.inv(grad))", "ops.where(self, grad, ops.linalg_inv(grad))"),
        ("grad * alpha.conj()", "grad * alpha.conjugate()"),
        ("grad * (alpha * 2).conj()", "grad * (alpha * 2).conjugate()"),
        ("grad * 1 .conj()", "grad * (1).conjugate()"),
        ("grad * math.pi", "grad * 3.141592653589793"),
        ("grad.expand(grad.sym_sizes())", "grad.expand(grad.shape)"),
        ("(grad + 1).sym_size(-1) * grad", "(grad + 1).size(-1) * grad"),
        ("[g.t() for g in tensors]", "[g.t() for g in tensors]"),
        ("[t * x for t, x in zip(tensors, tensors)]", "[t * x for t, x in zip(tensors, tensors)]"),
    ],
)
def test_the_rest_of_a_formula_is_rewritten_to_fit(text, rewritten):
    assert written(text)[0] == rewritten


def test_metadata_that_is_not_public_is_read_from_a_tensor_that_is_saved_anyhow():
    assert written("grad * self.to(self.dtype)") == ("grad * self.to(self.dtype)", {"self": "self"})
    assert written("zeros_like(self) + self")[1] == {"self": "self"}
    text, saved = written("grad * self if self.dim() > 0 else grad")
    assert text == "grad * self if self_dim > 0 else grad"  # PyTorch shows `_saved_self_dim` in this case, too
    assert saved == {"self": "self", "self_dim": "self.dim()"}


def test_a_guarded_read_of_one_size_cannot_fail_when_saving():
    text, saved = written("grad * self.size(-1) if self.dim() else grad")
    assert text == "grad * self_sym_argsize_minus_1 if self_dim else grad"
    assert saved["self_sym_argsize_minus_1"] == "self.shape[-1] if self.dim() >= 1 else None"
    text, saved = written("grad * self.size(dim) if self.dim() else grad")
    assert text == "grad * self_sym_sizes[dim] if self_dim else grad"


def test_min_max_and_abs_are_pythons_for_numbers_and_operators_for_tensors():
    assert written("grad * max(dim, 1)")[0] == "grad * max(dim, 1)"
    assert written("max(grad, 1)[0]")[0] == "ops.max(grad, 1)[0]"
    assert written("max(helper(grad), 1)[0]")[0] == "ops.max(helper(grad), 1)[0]"


def test_a_variable_hides_an_operator_of_its_name_but_not_a_call_of_it():
    schema = "f(Tensor self, int exp) -> Tensor"
    assert written("exp(grad) * exp", schema)[0] == "ops.exp(grad) * exp"


def test_wrap_opt_if_saves_under_a_condition():
    schema = "f(Tensor self, Tensor other, bool flag) -> Tensor"
    scope = scope_of(schema)
    mask = Variable("grad_input_mask", Kind.NUMBERS, Role.MASK, size=2)
    scope = Scope({**scope.variables, "grad_input_mask": mask}, {}, scope.callables)
    text = "(grad * wrap_opt_if(other, grad_input_mask[0] and flag), grad * wrap_opt_if(self, grad_input_mask[1]))"
    result = write_backward(resolve(parse(text), scope), ("self", "other"))
    assert result.text == "(grad * other, grad * self)"
    assert {c.name: c.condition for c in result.captures} == {"other": "needs_self and flag", "self": "needs_other"}


def test_only_a_tangent_of_its_own_may_be_written_to():
    scope = scope_of(F)
    tangent = Variable("self_t", Kind.TENSOR, Role.TANGENT, "self")
    inplace = Scope({**scope.variables, "self_t": tangent}, {}, scope.callables, writes_tangent=True)
    assert write_forward(resolve(parse("self_t.zero_()"), inplace)) == "self_t.zero_()"
    with pytest.raises(FormulaError, match="writes to its tensor"):
        resolve(parse("grad.zero_()"), inplace)
    with pytest.raises(FormulaError, match="writes to its tensor"):
        resolve(parse("self_t.zero_()"), Scope(inplace.variables, {}, scope.callables))


def test_substitutions_replace_names_and_keep_metadata_in_place():
    resolved = resolve(parse("grad.expand(self.sym_sizes()) * self"), scope_of(F))
    substituted = write_forward(resolved, {"grad": "self_t.conj()", "self": "self_p"})
    assert substituted == "self_t.conj().expand(self_p.shape) * self_p"


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')", "open('x')", "getattr(grad, 'x')", "exec('1')", "compile('1', '', 'exec')", "globals()",
        "grad.data", "grad.numpy()", "grad._array", "grad.grad_fn", "grad.backward()", "grad.share_memory_()",
        "grad.register_hook(helper)",
        "type(grad)", "self.__reduce__()", "helper.__globals__", "linalg.inv.__globals__",
        "ops.exp(grad)", "np.exp(grad)", "gradloom.exp(grad)", "math.sqrt(2)", "self_t", "dim.real.sum()",
        "'%s' % grad", "'a'.join(grad)", "tensors.append(grad)", "[g for grad in tensors]", "print(grad)",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_scope_gets_in(text):
    with pytest.raises(FormulaError) as caught:
        resolve(parse(text), scope_of(F, ("helper",)))
    assert caught.value.hint

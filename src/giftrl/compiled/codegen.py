"""Compilation of loops to object files with Numba. First, reference-counted memory for loops that allocate arrays. It
replaces Numba's functions of the same names, which exist only in the compiling process: a block has a head of six words
(count, destructor and its argument, data pointer, size, allocator), then the data.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import overload

from giftrl.compiled import vectors
from giftrl.compiled.compiler import FIELDS, Unknown
from giftrl.compiled.object_files import machine
from giftrl.compiled.registry import FORMULAS, OPERATIONS, TWINS, brings

NAMES = ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor")

LLVM = """
%head = type { i64, ptr, ptr, ptr, i64, ptr }
declare ptr @malloc(i64)
declare void @free(ptr)

define weak hidden ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %more = add i64 %wide, 48
  %total = add i64 %size, %more
  %block = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %fill
fill:
  %begin = getelementptr i8, ptr %block, i64 48
  %number = ptrtoint ptr %begin to i64
  %below = sub i64 %wide, 1
  %above = add i64 %number, %below
  %mask = xor i64 %below, -1
  %rounded = and i64 %above, %mask
  %data = inttoptr i64 %rounded to ptr
  store %head { i64 1, ptr null, ptr null, ptr null, i64 0, ptr null }, ptr %block
  %where = getelementptr %head, ptr %block, i32 0, i32 3
  store ptr %data, ptr %where
  %extent = getelementptr %head, ptr %block, i32 0, i32 4
  store i64 %size, ptr %extent
  br label %done
done:
  ret ptr %block
}

define weak hidden void @NRT_MemInfo_call_dtor(ptr %block) {
  call void @free(ptr %block)
  ret void
}
"""


# Operations and formulas as Numba's overloads, so that a compiled loop calls the functions that plain Python calls.

#: Fast-math flags: sums can be reordered and multiplications fused. NaN and infinities must keep working.
FAST = frozenset({"reassoc", "contract", "nsz"})

_installed: list[int] = [0, 0]  # numbers of operations and formulas registered with Numba


def install() -> None:
    """Register new operations and formulas with Numba."""
    # Set for every formula, since unset flags are inherited from the caller.
    exact: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}}
    fast: Any = exact | {"fastmath": set(FAST)}
    if _installed == [0, 0]:
        vectors.install_scratch()
        for function, compiled in (vectors.MEMORY | vectors.FUNCTIONS).items():
            overload(function, strict=False, jit_options=exact)(_choosing(compiled))
        for symbol, compiled in vectors.OPERATORS.items():
            overload(symbol, strict=False, jit_options=exact)(_choosing(compiled, vectors.has_vector))
        overload(brings, strict=False, prefer_literal=True, jit_options=exact)(_brings)
    for operation in OPERATIONS[_installed[0] :]:
        overload(operation, strict=False, jit_options=exact)(_method(operation))
    for formula, sums_reordered in FORMULAS[_installed[1] :]:
        compiled = TWINS.get(formula, formula)
        options = fast if sums_reordered else exact
        overload(formula, strict=False, jit_options=options)(_choosing(compiled))
    _installed[:] = [len(OPERATIONS), len(FORMULAS)]


def _choosing(function: Any, where: Any = None) -> Callable[..., Any]:
    """An overload for matching types."""
    return lambda *args: function if where is None or where(*args) else None


def _method(operation: Any) -> Callable[..., Any]:
    """The compiled form of an operation on a member: the method of its class, or the fallback."""

    def choose(member: Any, *args: Any) -> Any:
        cls = getattr(member, "instance_class", None)
        return None if cls is None else getattr(cls, operation.__name__, operation.__wrapped__)

    return choose


def _brings(member: Any, name: Any) -> Any:
    """The compiled form of ``brings``: a constant."""
    if not isinstance(name, types.StringLiteral):
        return None
    answer = hasattr(member.instance_class, name.literal_value)
    return lambda member, name: answer  # noqa: ARG005


# From a loop in plain Python to an object file, by way of Numba; imported when a loop must be compiled.

WORD, DOUBLE, ADDRESS = ir.IntType(64), ir.DoubleType(), ir.IntType(8).as_pointer()


def emit(loop: Callable[..., Any], args: tuple[Any, ...], counted: bool, symbol: str) -> tuple[bytes, str]:
    """The object file of a loop for arguments of these kinds, with an entry of this name; the packing of results."""
    install()
    with global_compiler_lock, _for_target():
        flags: Any = Flags()
        options = {"error_model": "numpy", "nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        cpu_target.options.parse_as_flags(flags, options)
        flags.no_compile, flags.nrt = True, counted
        kind = numba.typeof(args)
        made = compile_extra(
            cpu_target.typing_context, cpu_target.target_context, lambda args: loop(*args), (kind,), None, flags, {}
        )
        made.library.finalize()
        entry, result = _entry(made, kind, symbol)
        module = binding.parse_assembly(made.library.get_llvm_str())
        module.link_in(_simplified(binding.parse_assembly(entry)))
    return _object(module, symbol), result


@contextlib.contextmanager
def _for_target() -> Iterator[None]:
    """Let Numba compile these loops for the common target processor; other code is not affected."""
    codegen = cpu_target.target_context.codegen()
    usual = codegen._tm
    codegen._tm = machine()
    try:
        yield
    finally:
        codegen._tm = usual


def _entry(made: Any, kind: Any, symbol: str) -> tuple[str, str]:
    """The entry in LLVM's language: it takes the arguments from the slots and calls the loop."""
    context = made.target_context
    module = context.create_module(symbol)
    pointer = WORD.as_pointer()
    entry = ir.Function(module, ir.FunctionType(ir.IntType(32), [pointer, pointer]), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    value = _Slots(context, builder, entry.args[0]).value(kind)
    callee = context.declare_function(module, made.fndesc)
    returns = made.fndesc.restype
    status, found = context.call_conv.call_function(builder, callee, returns, made.fndesc.argtypes, [value])
    with cgutils.if_likely(builder, status.is_ok):
        packed = _store(context, builder, entry.args[1], returns, found)
    builder.ret(builder.select(status.is_ok, ir.IntType(32)(0), status.code))
    return cgutils.normalize_ir_text(str(module)), packed


class _Slots:
    """Reads the slots of :mod:`giftrl.compiled.compiler` in order."""

    def __init__(self, context: Any, builder: Any, slots: Any) -> None:
        self._context, self._builder, self._slots = context, builder, slots
        self._next = 0

    def value(self, kind: Any) -> Any:
        """A value of this Numba type, from the next slots."""
        if isinstance(kind, types.Array):
            return self._array(kind)
        if isinstance(kind, types.BaseTuple):
            parts = [self.value(part) for part in kind.types]
            return self._context.make_tuple(self._builder, kind, parts)
        slot = _at(self._builder, self._slots, self._next)
        self._next += 1
        wanted = self._context.get_value_type(kind)
        if isinstance(kind, types.Float):
            number = self._builder.load(self._builder.bitcast(slot, DOUBLE.as_pointer()))
            return number if wanted == DOUBLE else self._builder.fptrunc(number, wanted)
        if isinstance(kind, (types.Integer, types.Boolean)):
            number = self._builder.load(slot)
            return number if wanted == WORD else self._builder.trunc(number, wanted)
        raise Unknown(str(kind))

    def _array(self, kind: Any) -> Any:
        builder, context = self._builder, self._context
        address = builder.load(_at(builder, self._slots, self._next))
        self._next += 1
        fields = builder.inttoptr(builder.add(address, WORD(FIELDS)), WORD.as_pointer())
        data, shape, strides = (builder.load(_at(builder, fields, place)) for place in (0, 2, 3))
        extents, steps = (
            [builder.load(_at(builder, builder.inttoptr(each, WORD.as_pointer()), k)) for k in range(kind.ndim)]
            for each in (shape, strides)
        )
        items = WORD(1)
        for extent in extents:
            items = builder.mul(items, extent)
        array = context.make_array(kind)(context, builder)
        array.data = builder.inttoptr(data, array.data.type)
        array.nitems, array.itemsize = items, WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        array.shape, array.strides = cgutils.pack_array(builder, extents), cgutils.pack_array(builder, steps)
        # The caller owns the memory, so there is no reference count.
        array.meminfo, array.parent = (cgutils.get_null_value(each.type) for each in (array.meminfo, array.parent))
        return array._getvalue()


def _store(context: Any, builder: Any, result: Any, kind: Any, value: Any) -> str:
    """Store a result (none, a number, or a tuple of numbers); returns its packing."""
    if isinstance(kind, types.NoneType):
        return ""
    if isinstance(kind, (types.Tuple, types.UniTuple)):
        parts = [_put(builder, result, k, part, builder.extract_value(value, k)) for k, part in enumerate(kind.types)]
        return f"({''.join(parts)})"
    return _put(builder, result, 0, kind, value)


def _put(builder: Any, result: Any, k: int, kind: Any, value: Any) -> str:
    place = _at(builder, result, k)
    if isinstance(kind, types.Float):
        wide = value if value.type == DOUBLE else builder.fpext(value, DOUBLE)
        builder.store(wide, builder.bitcast(place, DOUBLE.as_pointer()))
        return "d"
    if not isinstance(kind, (types.Integer, types.Boolean)):
        raise Unknown(f"a result of type {kind}")
    signed = isinstance(kind, types.Integer) and kind.signed
    extend = builder.sext if signed else builder.zext
    builder.store(value if value.type == WORD else extend(value, WORD), place)
    return "?" if isinstance(kind, types.Boolean) else "q" if signed else "Q"


def _at(builder: Any, pointer: Any, k: int) -> Any:
    return builder.gep(pointer, [WORD(k)])


def _simplified(module: Any) -> Any:
    """A module whose functions keep their values in registers."""
    module.data_layout = str(machine().target_data)
    passes = binding.create_pass_builder(machine(), binding.create_pipeline_tuning_options(speed_level=2))
    manager = passes.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, passes)
    return module


def _object(module: Any, symbol: str) -> bytes:
    """The object file of a module, which exports only the entry."""
    asked = {function.name for function in module.functions if function.is_declaration}
    if asked & set(NAMES):
        memory = binding.parse_assembly(LLVM)
        memory.triple, memory.data_layout = module.triple, module.data_layout
        module.link_in(memory)
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name != symbol:
            each.linkage = "internal"
    passes = binding.create_pass_builder(machine(), binding.create_pipeline_tuning_options(speed_level=0))
    manager = binding.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, passes)
    code: bytes = machine().emit_object(module)
    return code

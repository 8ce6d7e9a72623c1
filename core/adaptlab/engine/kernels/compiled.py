"""C kernels for operations that torch does in several passes on a CPU.

They are used if requested and if the machine has a C compiler; results record that as `compiled`.
Without a compiler torch computes everything, to the same accuracy but not to the same last bits. So
a compilation that fails is never passed over: the run ends, and the next one compiles again.
"""

import ctypes
import platform
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from adaptlab.c_compiler import c_compiler
from adaptlab.errors import KernelsMissing

FOLDER = Path(__file__).parent
FLAGS = (
    "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC"
)  # fmt: skip
WIDE = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
DEFINES = {torch.float32: (), torch.bfloat16: ("-DBFLOAT16",)}
SOURCES = {
    torch.float32: ("attention.c", "products.c", "kernels.c", "adamw.c"),
    torch.bfloat16: ("kernels.c",),
}
ROWS_A_BLOCK = 64  # rows per partial sum of the gradients of a norm's weights
COMPILE_SECONDS = 300  # they take two on a quiet machine
OPENMP = ("libgomp", "libomp", "libiomp")
_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True)
class Kernels:
    """The kernels for one dtype; all tensors are contiguous, on the CPU."""

    library: ctypes.CDLL

    @property
    def has_products(self) -> bool:
        """True if `product` beats torch on this processor."""
        return bool(self.library.products_are_fast())

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of x [...] in its tanh form."""
        y = torch.empty_like(x)
        self.library.gelu_forward(_at(x), _at(y), _count(x.numel()), torch.get_num_threads())
        return y

    def gelu_backward(self, x: Tensor, incoming: Tensor) -> Tensor:
        """Return the gradient of x [...] from that of its GELU."""
        gradient = torch.empty_like(x)
        self.library.gelu_backward(
            _at(x), _at(incoming), _at(gradient), _count(x.numel()), torch.get_num_threads()
        )
        return gradient

    def norm(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        """Return the layer norm of x [..., C], with its moments.

        The moments [2, rows] are mean and inverse deviation of each row, in float32.
        """
        y, rows = torch.empty_like(x), x.numel() // x.shape[-1]
        moments = torch.empty(2, rows, dtype=torch.float32)
        self.library.norm_forward(
            _at(x), _at(weight), _at(bias), _at(y), _at(moments[0]), _at(moments[1]),
            *self._sizes(rows, weight), ctypes.c_float(epsilon), torch.get_num_threads(),
        )  # fmt: skip
        return y, moments

    def norm_backward(
        self, x: Tensor, weight: Tensor, incoming: Tensor, moments: Tensor, sums: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the gradient of x [..., C] and those of the weights.

        Those of scale and shift, [G, 2, C], are None unless `sums` is set.
        """
        gradient, rows = torch.empty_like(x), x.numel() // x.shape[-1]
        groups, width = weight.shape
        blocks = -(-rows // (groups * ROWS_A_BLOCK))
        parts = torch.empty(groups, blocks, 2, width, dtype=torch.float32) if sums else None
        self.library.norm_backward(
            _at(x), _at(weight), _at(incoming), _at(moments[0]), _at(moments[1]), _at(gradient),
            _at(parts), *self._sizes(rows, weight), _count(blocks), torch.get_num_threads(),
        )  # fmt: skip
        return gradient, None if parts is None else parts.sum(1)

    def losses(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy of targets [N], given logits [N, V].

        The logarithms of the sums of exponentials come with it, in float32.
        """
        losses = torch.empty_like(logits[:, 0])
        sums = torch.empty(len(logits), dtype=torch.float32)
        self.library.losses_forward(
            _at(logits), _at(targets), _at(losses), _at(sums), _count(len(logits)),
            _count(logits.shape[1]), torch.get_num_threads(),
        )  # fmt: skip
        return losses, sums

    def losses_backward(
        self, logits: Tensor, targets: Tensor, sums: Tensor, incoming: Tensor
    ) -> Tensor:
        """Return the gradient of logits [N, V] from that of the losses."""
        gradient = torch.empty_like(logits)
        self.library.losses_backward(
            _at(logits), _at(targets), _at(sums), _at(incoming), _at(gradient),
            _count(len(logits)), _count(logits.shape[1]), torch.get_num_threads(),
        )  # fmt: skip
        return gradient

    def rows_backward(self, incoming: Tensor, taken: Tensor, vocabulary: int) -> Tensor:
        """Sum the rows of `incoming` [N, C] by `taken` [N]; float32 [V, C]."""
        sums = torch.empty(vocabulary, incoming.shape[-1], dtype=torch.float32)
        self.library.rows_backward(
            _at(incoming), _at(taken), _at(sums), _count(taken.numel()), _count(vocabulary),
            _count(incoming.shape[-1]), torch.get_num_threads(),
        )  # fmt: skip
        return sums

    def dropout(self, argument: ctypes.Structure, replicates: int) -> None:
        """Apply dropout as its argument says; see `fused_dropout.py`."""
        self.library.dropout(ctypes.byref(argument), _count(replicates), torch.get_num_threads())

    def adamw(self, argument: ctypes.Structure) -> None:
        """Take a step as its argument says, in float32; see `fused_adamw.py`."""
        self.library.adamw(ctypes.byref(argument), torch.get_num_threads())

    def product(
        self, name: Literal["linear", "mlp", "attention"], argument: ctypes.Structure, *, back: bool
    ) -> None:
        """Compute what an argument describes, or its gradient.

        Only in float32; see `fused_products.py` and `fused_attention.py`.
        """
        threads = torch.get_num_threads()
        needed, compute = getattr(self.library, f"{name}_scratch"), getattr(self.library, name)
        needed.restype = ctypes.c_int64
        scratch = torch.empty(threads, needed(ctypes.byref(argument)), dtype=torch.float32)
        compute(ctypes.byref(argument), _at(scratch), ctypes.c_int(back), threads)

    def _sizes(self, rows: int, weight: Tensor) -> tuple[ctypes.c_int64, ...]:
        groups, width = weight.shape
        return _count(groups), _count(rows // groups), _count(width)


@dataclass
class _Process:
    """The compiler of this process, and its kernels.

    Without a compiler torch computes everything.
    """

    compiler: str | None = None
    made: dict[tuple[str, torch.dtype], Kernels] = field(
        default_factory=dict[tuple[str, torch.dtype], Kernels]
    )


_PROCESS = _Process()


def compile_kernels() -> bool:
    """Compile kernels and use them; return True if the machine can.

    Those for float32 take about two seconds; others are compiled when first asked for. Without a
    compiler, or if the library brings a second thread pool, torch computes everything as before.

    Raises:
        KernelsMissing: the compiler fails.
    """
    compiler = c_compiler()
    if compiler is None or not _MAPS.exists():
        return False
    _made(compiler, torch.float32)
    if _thread_pools() != 1:  # a second one would compete with torch's for the processors
        return False
    _PROCESS.compiler = compiler
    return True


def forget_kernels() -> None:
    """Let torch compute everything again."""
    _PROCESS.compiler = None


def are_compiled(dtype: torch.dtype, device: torch.device) -> bool:
    """Return True if this process has kernels for a dtype and device."""
    return device.type == "cpu" and _kernels_of(dtype) is not None


def kernels_for(*tensors: Tensor | None) -> Kernels | None:
    """Return the kernels for these tensors; None if torch has to compute."""
    present = [tensor for tensor in tensors if tensor is not None]
    if any(tensor.device.type != "cpu" or tensor.dtype != present[0].dtype for tensor in present):
        return None
    return _kernels_of(present[0].dtype)


def _kernels_of(dtype: torch.dtype) -> Kernels | None:
    if _PROCESS.compiler is None or dtype not in SOURCES:
        return None
    return _made(_PROCESS.compiler, dtype)


def _made(compiler: str, dtype: torch.dtype) -> Kernels:
    """Return the kernels of this process, compiled when first asked for.

    Raises:
        KernelsMissing: the compiler fails twice.
    """
    key = compiler, dtype
    for last in (False, True):
        if key in _PROCESS.made:
            break
        try:
            with tempfile.TemporaryDirectory(prefix="adaptlab-kernels-") as folder:
                _PROCESS.made[key] = Kernels(_compiled(compiler, dtype, Path(folder)))
        except (OSError, subprocess.SubprocessError) as error:
            if last:
                raise KernelsMissing(_why(compiler, error)) from error
    return _PROCESS.made[key]


def _why(compiler: str, error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
    told = (output or b"").decode(errors="replace").strip().split("\n", 1)[0] or str(error)
    return (
        f"The kernels for training on a CPU could not be compiled by {compiler}: {told[:500]}. "
        "Without them torch computes other last bits, and more slowly. Make room for temporary "
        "files or mend the compiler; ADAPTLAB_COMPILE=off trains without kernels."
    )


def _compiled(compiler: str, dtype: torch.dtype, folder: Path) -> ctypes.CDLL:
    """Compile all sources at once, and return the library."""

    def run(*arguments: str) -> None:
        subprocess.run(
            [compiler, *FLAGS, *WIDE, *arguments],
            check=True, capture_output=True, timeout=COMPILE_SECONDS, cwd=FOLDER,
        )  # fmt: skip

    def compiled(source: str) -> str:
        to = str(folder / f"{source}.o")
        run(*DEFINES[dtype], "-c", "-o", to, source)
        return to

    library = str(folder / "kernels.so")
    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, SOURCES[dtype]))
    run("-shared", "-o", library, *objects)
    return ctypes.CDLL(library)


def _thread_pools() -> int:
    """Return the number of OpenMP libraries loaded in this process."""
    files = {line.split()[-1] for line in _MAPS.read_text().splitlines() if "/" in line}
    return sum(Path(file).name.startswith(OPENMP) for file in files)


def _at(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _count(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)

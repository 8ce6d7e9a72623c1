// Dropout in one pass on a GPU: draws the mask and applies it, without storing it. The backward pass
// is the same function of the gradient. Compiled by NVRTC; `fused_dropout.py` says what it replaces.

typedef unsigned long long Bits;

struct Dropout {  // as in `fused_dropout.py`
    const void *x;
    void *y;
    const long long *step;
    const long long *seeds;
    Bits stream;
    Bits below;  // a value is zeroed if its draw is less
    double scale;  // of the others
    long long first_item;
    long long first_row, row_step, length;  // which rows of `length` positions x holds
    long long from[5], to[5];  // strides of x and y: replicate, item, head, row, column
    unsigned items, heads, rows, columns;
};

static __device__ Bits mixed(Bits value) {  // SplitMix64, as in `counter.py`
    value += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
}

static __device__ float times(float value, double scale) { return value * (float)scale; }

static __device__ double times(double value, double scale) { return value * scale; }

struct BFloat16 {
    unsigned short bits;
};

static __device__ BFloat16 times(BFloat16 value, double scale) {
    union { unsigned bits; float number; } wide;
    wide.bits = (unsigned)value.bits << 16;
    wide.number *= (float)scale;
    if (wide.number != wide.number) return BFloat16{0x7FC0};
    return BFloat16{(unsigned short)((wide.bits + 0x7FFF + ((wide.bits >> 16) & 1)) >> 16)};
}

// Blocks are [replicates * items, parts of an item].
template <typename T>
static __device__ void drop(const Dropout &d) {
    const unsigned replicate = blockIdx.x / d.items, item = blockIdx.x % d.items;
    Bits key = mixed(mixed(d.stream) ^ (Bits)*d.step);
    key = mixed(mixed(key ^ (Bits)d.seeds[replicate]) ^ (Bits)(d.first_item + item));
    const T *x = (const T *)d.x + replicate * d.from[0] + item * d.from[1];
    T *y = (T *)d.y + replicate * d.to[0] + item * d.to[1];
    const unsigned values = d.heads * d.rows * d.columns, step = gridDim.y * blockDim.x;
    for (Bits i = (Bits)blockIdx.y * blockDim.x + threadIdx.x; i < values; i += step) {
        const unsigned place = (unsigned)i, above = place / d.columns;
        const unsigned column = place % d.columns, row = above % d.rows, head = above / d.rows;
        const Bits position = head * d.length + d.first_row + row * d.row_step;
        const bool zeroed = (mixed(key ^ (position * d.columns + column)) >> 1) < d.below;
        const T value = x[head * d.from[2] + row * d.from[3] + column * d.from[4]];
        y[head * d.to[2] + row * d.to[3] + column * d.to[4]] =
            zeroed ? T{} : times(value, d.scale);
    }
}

extern "C" __global__ void drop_float32(const Dropout d) { drop<float>(d); }

extern "C" __global__ void drop_float64(const Dropout d) { drop<double>(d); }

extern "C" __global__ void drop_bfloat16(const Dropout d) { drop<BFloat16>(d); }

// What all kernels share. They are compiled at run time, for one type of numbers (REAL) and one loss (LOSS_KIND).
//
// Blocks of threads of one launch wait for each other, so that there are never more of them than fit on the device at
// once.

using Real = REAL;

constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ inline int lane_id() { return threadIdx.x % warp_size; }
__device__ inline int warp_id() { return threadIdx.x / warp_size; }

// Numbers that blocks of threads tell each other. Each travels with the number of the message it belongs to, in one
// word that is written and read at once, so that whoever waits for a message waits for nothing else: no barrier, no
// fence. A double is two such words.
struct alignas(8) Word {
    unsigned bits, message;
};
constexpr int words = sizeof(Real) / sizeof(unsigned);  // of a number

__device__ inline void send_word(Word* to, unsigned bits, unsigned message) {
    store_relaxed(to, static_cast<unsigned long long>(message) << 32 | bits);
}

__device__ inline Word look_at(const Word* at) {
    const unsigned long long both = load_relaxed(at);
    return {static_cast<unsigned>(both), static_cast<unsigned>(both >> 32)};
}

__device__ inline void send(Word* to, Real value, unsigned message) {
    unsigned bits[words];
    memcpy(bits, &value, sizeof(Real));
#pragma unroll
    for (int i = 0; i < words; ++i) send_word(to + i, bits[i], message);
}

__device__ inline bool has_come(const Word (&word)[words], unsigned message) {
    bool come = true;
#pragma unroll
    for (int i = 0; i < words; ++i) come = come && word[i].message == message;
    return come;
}

__device__ inline Real number_of(const Word (&word)[words]) {
    unsigned bits[words];
#pragma unroll
    for (int i = 0; i < words; ++i) bits[i] = word[i].bits;
    Real value;
    memcpy(&value, bits, sizeof(Real));
    return value;
}

// Up to `most` numbers at once, `stride` words apart; waits until all have come.
template <int most>
__device__ inline void receive(const Word* from, long long stride, int count, unsigned message, Real (&values)[most]) {
    Word got[most][words];
#pragma unroll
    for (int i = 0; i < most; ++i)
#pragma unroll
        for (int w = 0; w < words; ++w) got[i][w] = {0, message - 1};
    for (bool waiting = true; waiting;) {
        // all that are missing are looked at before any of them is waited for
#pragma unroll
        for (int i = 0; i < most; ++i)
            if (i < count && !has_come(got[i], message))
#pragma unroll
                for (int w = 0; w < words; ++w) got[i][w] = look_at(from + i * stride + w);
        waiting = false;
#pragma unroll
        for (int i = 0; i < most; ++i) waiting = waiting || (i < count && !has_come(got[i], message));
    }
#pragma unroll
    for (int i = 0; i < most; ++i) values[i] = i < count ? number_of(got[i]) : Real(0);
}

template <class T>
__device__ inline T sum_of_warp(T value) {
    for (int offset = warp_size / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(all_lanes, value, offset);
    return value;
}

struct RowCopy {
    Real* to;
    const Real* from;
};

// Rows that are copied to shared memory in one piece each: the copy engine's on Hopper and later, where nobody waits
// until `wait`; elsewhere as above.
struct RowCopies {
    unsigned long long* barrier;
    unsigned phase = 0;

    __device__ void begin() const {
#if ARCHITECTURE >= 900
        if (threadIdx.x == 0) {
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncthreads();
#endif
    }

    // Called by all threads, once what was there before is no longer read. `row(i)` says from where to where.
    template <class Row>
    __device__ void start(int count, int numbers, Row&& row) const {
#if ARCHITECTURE >= 900
        if (warp_id() > 0) return;
        const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        const unsigned bytes = static_cast<unsigned>(numbers * sizeof(Real));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if (lane_id() == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count * bytes)
                         : "memory");
        __syncwarp();
        for (int i = lane_id(); i < count; i += warp_size) {
            const RowCopy copy = row(i);
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(copy.to));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at),
                "l"(copy.from), "r"(bytes), "r"(bar)
                : "memory");
        }
#else
        constexpr int in_piece = 16 / sizeof(Real);
        for (int i = warp_id(); i < count; i += blockDim.x / warp_size) {
            const RowCopy copy = row(i);
            for (int p = lane_id(); p < numbers / in_piece; p += warp_size)
                copy_16(copy.to + p * in_piece, copy.from + p * in_piece);
        }
        commit_copies();
#endif
    }

    __device__ void wait() {
#if ARCHITECTURE >= 900
        const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        unsigned done = 0;
        while (!done)
            asm volatile(
                "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                : "=r"(done)
                : "r"(bar), "r"(phase)
                : "memory");
        phase ^= 1;
#else
        wait_for_copies();
#endif
    }
};

// Targets and weights in the order of the pass, as the CPU's core has them.
struct Targets {
    const Real* label;   // ±1, a number, or the number of a class
    const Real* weight;  // or null
    const Real* positive_weight;  // by model
    const Real* negative_weight;
    const Real* class_id;  // by model; null where there is one model

    __device__ Real target(int position, int model) const {
        const Real own = label[position];
        return class_id == nullptr ? own : (own == class_id[model] ? Real(1) : Real(-1));
    }
    __device__ Real weigh(int position, int model, Real target) const {
        const Real by_class = target > Real(0) ? positive_weight[model] : negative_weight[model];
        return weight == nullptr ? by_class : by_class * weight[position];
    }
};

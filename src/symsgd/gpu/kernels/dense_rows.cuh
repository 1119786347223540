// Dense rows in rounds. A block of threads has its rows in shared memory, if they fit, from when they are predicted until
// they are added to the weights; all weights are beside them. Movements are summed and weights made anew by feature: each
// block has a share of them.

struct Vector16 {
    static constexpr int numbers = 16 / sizeof(Real);
    Real at[numbers];
};

// x·w by one warp
__device__ inline Real dot(const Real* x, const Real* w, int count, bool aligned) {
    Real sum = 0;
    if (aligned) {
        const auto* a = reinterpret_cast<const float4*>(x);
        const auto* b = reinterpret_cast<const float4*>(w);
        const int pieces = count / Vector16::numbers;
#pragma unroll 4
        for (int i = lane_id(); i < pieces; i += warp_size) {
            const float4 raw_p = a[i], raw_q = b[i];
            const auto& p = reinterpret_cast<const Vector16&>(raw_p);
            const auto& q = reinterpret_cast<const Vector16&>(raw_q);
#pragma unroll
            for (int k = 0; k < Vector16::numbers; ++k) sum += p.at[k] * q.at[k];
        }
    } else {
        for (int i = lane_id(); i < count; i += warp_size) sum += x[i] * w[i];
    }
    return sum_of_warp(sum);
}

class Rows {
public:
    static constexpr bool sees_next = false;  // rows of the next round come when those of this one have moved the weights

    __device__ explicit Rows(const Pass& pass) : pass_(pass) {
        ahead_.barrier = pass.parts.ahead;
        rest_.barrier = pass.parts.rest;
        for (int i = threadIdx.x; i < pass.models * pass.features; i += blockDim.x)
            pass_.parts.weights[i / pass.features * stride() + i % pass.features] = pass.w[i];
        ahead_.begin();
        rest_.begin();
    }

    // As many rows of the next round as there is room for beside those of this one, if blocks keep their size.
    __device__ Span look_ahead(const Span& span) const {
        Span next(span.begin + span.count, span.size, pass_.count);
        next.slot = span.slot + span.mine;
        if (next.slot >= pass_.slots) next.slot -= pass_.slots;
        if (!in_pieces()) return next;
        next.there = min(next.mine, pass_.slots - span.mine);
        copy_rows(ahead_, next, 0, next.there);
        return next;
    }
    __device__ void wait_ahead() {
        if (in_pieces()) ahead_.wait();
    }

    // The rest of them; they are under way until `finish`.
    __device__ void prepare(const Span& span) const {
        if (in_pieces()) copy_rows(rest_, span, span.there, span.mine);
        if (!pass_.staged || pass_.aligned) return;
        for (int r = warp_id(); r < span.mine; r += blockDim.x / warp_size) {
            const Real* from = pass_.X + static_cast<long long>(pass_.rows[span.first + r]) * pass_.stride;
            for (int f = lane_id(); f < pass_.features; f += warp_size) copy_one(slot(span, r) + f, from + f);
        }
    }
    __device__ void finish() {
        if (in_pieces()) rest_.wait();
    }

    // x·w of the rows that are here, for every model.
    __device__ void multiply(Real* products, const Span& span) const {
        const int warps = blockDim.x / warp_size;
        for (int m = 0; m < pass_.models; ++m) {
            const Real* w = pass_.parts.weights + m * stride();
            for (int i = warp_id(); i < span.mine; i += warps) {
                const Real sum = dot(row(span, i), w, pass_.features, pass_.aligned);
                if (lane_id() == 0) products[m * most_rows + i] = sum;
            }
        }
    }

    // What the rows of this block add to the weights.
    __device__ void send(const Span& span, const Movement& movement) const {
        for (int m = 0; m < pass_.models; ++m) {
            const Real* e = movement.steps + m * most_rows;
            Word* to = pass_.partial + (static_cast<long long>(m) * gridDim.x + blockIdx.x) * pass_.features * words;
            if (pass_.aligned) {
                for (int i = threadIdx.x; i < pass_.features / Vector16::numbers; i += blockDim.x) {
                    Vector16 sum{};
#pragma unroll 8
                    for (int r = 0; r < span.mine; ++r) {
                        const float4 raw = reinterpret_cast<const float4*>(row(span, r))[i];
                        const auto& x = reinterpret_cast<const Vector16&>(raw);
#pragma unroll
                        for (int k = 0; k < Vector16::numbers; ++k) sum.at[k] += e[r] * x.at[k];
                    }
#pragma unroll
                    for (int k = 0; k < Vector16::numbers; ++k)
                        ::send(to + (i * Vector16::numbers + k) * words, sum.at[k], movement.message);
                }
            } else {
                for (int f = threadIdx.x; f < pass_.features; f += blockDim.x) {
                    Real sum = 0;
                    for (int r = 0; r < span.mine; ++r) sum += e[r] * row(span, r)[f];
                    ::send(to + f * words, sum, movement.message);
                }
            }
        }
    }

    // The new weights of this block's share of the features. V adds where the chain ends, less what rows have moved.
    __device__ void combine(const Span& span, const Movement& movement) {
        const int blocks = gridDim.x, threads = blockDim.x, rank = pass_.rank;
        const int share = (pass_.features + blocks - 1) / blocks;
        const int begin = min(pass_.features, static_cast<int>(blockIdx.x) * share);
        const int width = min(pass_.features, begin + share) - begin;
        for (int m = 0; m < pass_.models && width > 0; ++m) {
            const int groups = max(1, threads / width);
            const Word* from = pass_.partial + (static_cast<long long>(m) * blocks * pass_.features + begin) * words;
            const long long line = static_cast<long long>(pass_.features) * words;
            const Real *end = movement.end + m * rank, *back = movement.back + m * rank;
            for (int base = 0; base < width; base += threads) {
                const int thread = threadIdx.x;
                const int f = base + (groups > 1 ? thread % width : thread), group = groups > 1 ? thread / width : 0;
                const bool has = f < width && group < groups;
                Real sum = 0;
                if (has) {
                    for (int p = group; p < blocks; p += batch * groups) {
                        Real values[batch];
                        receive(from + p * line + f * words, groups * line,
                                min(batch, (blocks - p + groups - 1) / groups), movement.message, values);
#pragma unroll
                        for (int i = 0; i < batch; ++i) sum += values[i];
                    }
                    const Real* directions = pass_.directions + static_cast<long long>(begin + f) * rank;
                    for (int k = group; k < rank; k += groups) sum -= directions[k] * (end[k] + back[k]);
                }
                pass_.parts.scratch[thread] = sum;
                __syncthreads();
                if (has && group == 0) {
#pragma unroll 8
                    for (int g = 1; g < groups; ++g) sum += pass_.parts.scratch[g * width + f];
                    const Real w = kept(pass_, span, m) * (pass_.parts.weights[m * stride() + begin + f] - sum);
                    ::send(pass_.weights + (static_cast<long long>(m) * pass_.features + begin + f) * words, w,
                           movement.message);
                }
                __syncthreads();
            }
        }
    }

    __device__ void receive_weights(unsigned message) {
        const int all = pass_.models * pass_.features, threads = blockDim.x;
        for (int i = threadIdx.x; i < all; i += batch * threads) {
            Real values[batch];
            receive(pass_.weights + static_cast<long long>(i) * words, static_cast<long long>(threads) * words,
                    min(batch, (all - i + threads - 1) / threads), message, values);
#pragma unroll
            for (int k = 0; k < batch; ++k) {
                const int at = i + k * threads;
                if (at < all) pass_.parts.weights[at / pass_.features * stride() + at % pass_.features] = values[k];
            }
        }
        __syncthreads();
    }

    // Called by one block.
    __device__ void write_back() const {
        for (int i = threadIdx.x; i < pass_.models * pass_.features; i += blockDim.x)
            pass_.w[i] = pass_.parts.weights[i / pass_.features * stride() + i % pass_.features];
    }

private:
    __device__ int stride() const { return (pass_.features + 3) / 4 * 4; }
    __device__ bool in_pieces() const { return pass_.staged && pass_.aligned; }

    __device__ const Real* row(const Span& span, int i) const {
        if (pass_.staged) return slot(span, i);
        return pass_.X + static_cast<long long>(pass_.rows[span.first + i]) * pass_.stride;
    }

    // Rows go round in shared memory: those of the next round follow, as far as there is room.
    __device__ Real* slot(const Span& span, int i) const {
        const int at = span.slot + i;
        return pass_.parts.rows + (at < pass_.slots ? at : at - pass_.slots) * stride();
    }

    __device__ void copy_rows(const RowCopies& copies, const Span& span, int from, int to) const {
        copies.start(to - from, pass_.features, [&](int i) {
            const long long row = pass_.rows[span.first + from + i];
            return RowCopy{slot(span, from + i), pass_.X + row * pass_.stride};
        });
    }

    const Pass& pass_;
    RowCopies ahead_, rest_;
};

// Sparse rows in rounds. Weights stay in the memory of the device, as integers in units of 2⁻⁴⁰: all blocks add to them at
// once, in whatever order, and the sums are the same. What L2 leaves of them is a factor beside them.

class Rows {
public:
    static constexpr bool sees_next = true;

    __device__ explicit Rows(const Pass& pass) : pass_(pass) {
        for (int m = threadIdx.x; m < pass.models; m += blockDim.x) pass_.parts.scale[m] = 1.0;
    }

    __device__ Span look_ahead(const Span& span) const {
        return Span(span.begin + span.count, span.size, pass_.count);
    }
    __device__ void wait_ahead() {}
    __device__ void prepare(const Span&) const {}
    __device__ void finish() {}

    __device__ void multiply(Real* products, const Span& span) const {
        const int warps = blockDim.x / warp_size;
        for (int i = warp_id(); i < span.mine; i += warps) {
            const long long row = pass_.rows[span.first + i], begin = pass_.starts[row], end = pass_.starts[row + 1];
            for (int m = 0; m < pass_.models; ++m) {
                const long long* w = pass_.fixed + static_cast<long long>(m) * pass_.features;
                Real sum = 0;
#pragma unroll 4
                for (long long k = begin + lane_id(); k < end; k += warp_size)
                    sum += pass_.X[k] * number(load(w + pass_.indices[k]));
                sum = sum_of_warp(sum);
                if (lane_id() == 0) products[m * most_rows + i] = sum * static_cast<Real>(unit * pass_.parts.scale[m]);
            }
        }
    }

    // Adds to the weights at once: all blocks have made their predictions when the first of them gets here.
    __device__ void send(const Span& span, const Movement& movement) const {
        const int warps = blockDim.x / warp_size;
        for (int i = warp_id(); i < span.mine; i += warps) {
            const long long row = pass_.rows[span.first + i], begin = pass_.starts[row], end = pass_.starts[row + 1];
            for (int m = 0; m < pass_.models; ++m) {
                const double step = -static_cast<double>(movement.steps[m * most_rows + i]) / (unit * pass_.parts.scale[m]);
                for (long long k = begin + lane_id(); k < end; k += warp_size)
                    add(m, pass_.indices[k], step * static_cast<double>(pass_.X[k]));
            }
        }
        const int rank = pass_.rank;
        for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
             i < static_cast<long long>(pass_.models) * pass_.n_places; i += static_cast<long long>(gridDim.x) * blockDim.x) {
            const int m = static_cast<int>(i / pass_.n_places), place = static_cast<int>(i % pass_.n_places);
            const Real* directions = pass_.directions + static_cast<long long>(place) * rank;
            const Real *end = movement.end + m * rank, *back = movement.back + m * rank;
            Real sum = 0;
#pragma unroll 8
            for (int k = 0; k < rank; ++k) sum += directions[k] * (end[k] + back[k]);
            add(m, pass_.places[place], static_cast<double>(sum) / (unit * pass_.parts.scale[m]));
        }
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) send_word(pass_.weights + blockIdx.x, 0, movement.message);
    }

    __device__ void combine(const Span& span, const Movement&) {
        for (int m = threadIdx.x; m < pass_.models; m += blockDim.x)
            pass_.parts.scale[m] *= exp(decay_at(pass_, m, span.begin + span.count) - decay_at(pass_, m, span.begin));
    }

    __device__ void receive_weights(unsigned message) {
        for (int i = threadIdx.x; i < static_cast<int>(gridDim.x); i += blockDim.x)
            while (look_at(pass_.weights + i).message != message) {
            }
        __threadfence();
        __syncthreads();
    }

    __device__ void write_back() const {
        for (int m = threadIdx.x; m < pass_.models; m += blockDim.x) pass_.w[m] = static_cast<Real>(pass_.parts.scale[m]);
    }

private:
    static constexpr double unit = 1.0 / (1ull << 40);
    static constexpr long long largest = 1ll << 61;  // beyond it sums may have passed the end of the integers

    __device__ static Real number(long long w) {
        if (w > largest || w < -largest) return exponential(Real(1e4));  // infinite
        return static_cast<Real>(w);
    }

    __device__ void add(int m, int feature, double amount) const {
        const double most = static_cast<double>(largest);
        const long long whole = nearest(min(max(amount, -most), most));
        add_atomically(pass_.fixed + static_cast<long long>(m) * pass_.features + feature, whole);
    }

    const Pass& pass_;
};

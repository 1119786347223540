// Rounds: every block of threads has a block of up to 32 rows, all of them start from the same weights, and the steps
// that they make are those that they would have made one after the other, as far as a few directions can tell.
//
// With orthonormal directions V, the sharpest of the data, and q_i = Vᵀx_i, which is kept for every row,
//
//     x_i·v_i ≈ x_i·v + q_i·u_i,     u_i = −Σ_{j<i} e_j q_j
//
// v as in exact.cu. The products of rows with the weights are made once a round; what is serial has as many numbers as
// there are directions. Within a block of rows it goes row by row, by one warp. From block to block u is chained, by the
// curvature combiner: d_p = s_p + M (d_{p−1} − d°_{p−1}), M = exp(−a h λ) for every direction, d° what the block has
// started from; then the blocks go again from where the chain says that they start, until that changes nothing worth a
// sweep. Outside of V a step fades as the mean curvature there says.
//
// How far the predictions of the next rows are from what this round says about them is measured now and then, and
// decides how many rows the next rounds have. All blocks of threads come to the same decisions by themselves.

class Rounds {
public:
    __device__ explicit Rounds(const Pass& pass)
        : pass_(pass), shared_(pass.parts), span_(0, 1, 0), rows_(pass), control_(*pass.control) {
        const int m = pass.models, threads = blockDim.x;
        control_.errors = 0;
        control_.checks = control_.rounds = control_.sweeps_made = 0;
        for (int i = threadIdx.x; i < m; i += threads) {
            shared_.slope[i] = shared_.next_slope[i] = pass.slope[i];
            shared_.intercept[i] = pass.intercept[i];
            shared_.losses[i] = 0;
        }
        for (int i = threadIdx.x; i < m * most_rows; i += threads) shared_.margins[i] = Real(0);
        for (int i = threadIdx.x; i < rank(); i += threads) {
            shared_.sharpness[i] = pass.sharpness[i];
            shared_.turn[i] = pass.turn[i];
        }
    }

    __device__ void run() {
        span_ = Span(0, control_.rows, pass_.count);
        bool checked = false;
        prepare(span_);
        finish_preparing(span_);
        set_rates(span_);
        while (span_.count > 0 && control_.stuck < most_stuck) {
            __syncthreads();
            Span next = rows_.look_ahead(span_);
            bring_nearer(next);
            rows_.multiply(shared_.products, span_);
            const bool due = pass_.adapts && control_.since >= control_.between;
            if (Rows::sees_next && due) rows_.multiply(shared_.expected_next, next);
            __syncthreads();
            if (checked) measure_drift();
            control_.sweeps_made += sweep_until_settled(checked);
            control_.rounds += 1;
            if (pass_.adapts && (checked || unsettled_ > 2 * pass_.tolerance)) steer(checked);
            rows_.wait_ahead();
            if (next.size != control_.rows) next = Span(next.begin, control_.rows, pass_.count);
            checked = (due || !Rows::sees_next) && pass_.adapts && control_.since >= control_.between &&
                      span_.size == next.size && next.count > 0;
            control_.since = checked ? 0 : control_.since + 1;
            rows_checked_ = span_.count;
            add_losses();
            const Movement movement{shared_.faded, shared_.end, shared_.back, static_cast<unsigned>(control_.rounds)};
            rows_.send(span_, movement);
            __syncthreads();
            prepare(next);
            rows_.combine(span_, movement);
            finish_preparing(next);
            if (checked) expect(next);
            for (int m = threadIdx.x; m < pass_.models; m += blockDim.x)
                shared_.intercept[m] += static_cast<double>(dot_of(shared_.turn, shared_.end + m * rank()));
            set_rates(next);
            rows_.receive_weights(movement.message);
            span_ = next;
        }
        __syncthreads();
        for (int m = threadIdx.x; m < pass_.models; m += blockDim.x)
            pass_.losses[m * gridDim.x + blockIdx.x] = shared_.losses[m];
        if (blockIdx.x > 0) return;
        control_.done = span_.begin;
        if (threadIdx.x == 0) *pass_.control = control_;
        for (int m = threadIdx.x; m < pass_.models; m += blockDim.x) {
            pass_.intercept[m] = shared_.intercept[m];
            pass_.slope[m] = shared_.slope[m];
        }
        rows_.write_back();
    }

private:
    __device__ int rank() const { return pass_.rank; }
    __device__ int columns() const { return rank() + n_sums; }  // that are chained
    __device__ int width() const { return columns() + rank(); }
    __device__ int q_stride() const { return rank() | 1; }  // odd: rows begin in different banks

    // What the next round asks for first, if blocks keep their size.
    __device__ void bring_nearer(const Span& next) const {
        if (threadIdx.x != blockDim.x - 1 || next.mine == 0) return;
        fetch_ahead(pass_.rows + min(next.first + next.count, pass_.count - 1));  // of the round after it
        fetch_ahead(pass_.targets.label + next.first);
        fetch_ahead(pass_.step + next.first);
        fetch_ahead(pass_.decay + next.first);
    }

    // All that is known of a round before the weights that it starts from: rows and their q are under way, targets here.
    __device__ void prepare(const Span& span) {
        const int warps = blockDim.x / warp_size;
        rows_.prepare(span);
        for (int r = warp_id(); r < span.mine; r += warps) {
            const long long row = pass_.rows[span.first + r];
            for (int k = lane_id(); k < rank(); k += warp_size)
                copy_one(shared_.q + r * q_stride() + k, pass_.along + row * rank() + k);
        }
        commit_copies();
        read_facts(span);
    }

    __device__ void finish_preparing(const Span& span) {
        wait_for_copies();
        rows_.finish();
        __syncthreads();
        // of every row with those after it: row a, which has many, and the one as far from the end, which has few
        const int others = span.mine - 1;
        for (int i = threadIdx.x; i < (span.mine + 1) / 2 * others; i += blockDim.x) {
            const int a = i / others, b = i % others, of_first = others - a;
            if (b >= of_first && a == of_first) continue;  // the row in the middle is its own other
            const int one = b < of_first ? a : of_first, other = one + 1 + (b < of_first ? b : b - of_first);
            shared_.gram[one * pass_.most_rows + other] = dot_of(shared_.q + one * q_stride(), shared_.q + other * q_stride());
        }
    }

    __device__ void read_facts(const Span& span) {
        const int warps = blockDim.x / warp_size, lane = lane_id();
        for (int m = warps - 1 - warp_id(); m < pass_.models; m += warps) {  // the first warp has the copies
            Facts& own = shared_.facts[m];
            if (lane == 0 && span.count > 0) shared_.pace[m] = step_at(pass_, m, span.begin + span.count / 2);
            if (lane >= span.mine) {
                own.target[lane] = Real(1);
                own.weight[lane] = own.size[lane] = own.moves[lane] = Real(0);
                own.decay[lane] = own.after[lane] = Real(1);
                continue;
            }
            const int position = span.first + lane;
            const Real y = pass_.targets.target(position, m);
            const double before = decay_at(pass_, m, span.begin);
            const Real left = exponential(static_cast<Real>(decay_at(pass_, m, position + 1) - before));
            own.target[lane] = y;
            own.weight[lane] = pass_.targets.weigh(position, m, y);
            own.size[lane] = step_at(pass_, m, position);
            own.decay[lane] = exponential(static_cast<Real>(decay_at(pass_, m, position) - before));
            own.after[lane] = Real(1) / left;
            own.moves[lane] = pass_.kappa * left;
        }
    }

    // a h λ of a block of rows, for every direction
    __device__ void set_rates(const Span& span) {
        for (int i = threadIdx.x; i < pass_.models * rank(); i += blockDim.x) {
            const int m = i / rank(), k = i % rank();
            const Real a = span.size * shared_.pace[m], h = shared_.next_slope[m];
            if (k == 0) shared_.slope[m] = h;
            shared_.rate[i] = a * h * shared_.sharpness[k];
            shared_.start[i] = Real(0);
        }
    }

    // What this round says of the products of the next rows, whose own ones with its weights are made here.
    __device__ void expect(const Span& next) {
        __syncthreads();
        if (!Rows::sees_next) rows_.multiply(shared_.expected, next);
        __syncthreads();
        for (int i = threadIdx.x; i < pass_.models * next.mine; i += blockDim.x) {
            const int m = i / next.mine, r = i % next.mine;
            const Real* end = shared_.end + m * rank();
            const Real along = dot_of(shared_.q + r * q_stride(), end) - dot_of(shared_.turn, end);  // without intercept
            const Real* products = Rows::sees_next ? shared_.expected_next : shared_.expected;
            shared_.expected[m * most_rows + r] = (products[m * most_rows + r] + along) * kept(pass_, span_, m);
        }
        __syncthreads();
    }

    __device__ void measure_drift() {
        const int warps = blockDim.x / warp_size, lane = lane_id();
        for (int m = warp_id(); m < pass_.models; m += warps) {
            const int i = m * most_rows + lane;
            const Real drift = lane < span_.mine ? shared_.products[i] - shared_.expected[i] : Real(0);
            const Real squares = sum_of_warp(drift * drift);
            if (lane == 0) shared_.drift[m] = squares;
        }
        __syncthreads();
    }

    // A column is a number that every block tells of a sweep: of each model its movement along the directions, that of
    // the intercept, the sums, and the movement along the directions with what fades of it.
    __device__ Word* told(int column, int block) const {
        const long long line = static_cast<long long>(message_ % 2) * pass_.models * width() + column;
        return pass_.told + (line * gridDim.x + block) * words;
    }
    // What is answered to a block, in a place of its own: many waiting at one are in each other's way. First where the
    // chain ends, for every column, then where the block starts.
    __device__ Word* answer(int block, int i) const {
        const long long line = static_cast<long long>(message_ % 2) * gridDim.x + block;
        return pass_.answers + (line * pass_.models * (width() + rank()) + i) * words;
    }

    __device__ int sweep_until_settled(bool checked) {
        const int most = pass_.sweeps > 0 ? pass_.sweeps : most_sweeps, warps = blockDim.x / warp_size;
        Real before = 0;
        for (int sweep = 1;; ++sweep) {
            ++message_;
            begin_sweep(sweep > 1);
            __syncthreads();
            for (int m = warp_id(); m < pass_.models; m += warps) go(m);
            __syncthreads();
            send_sweep(sweep > 1, checked);
            __syncthreads();
            chain();
            Real square = 0;
            for (int m = 0; m < pass_.models; ++m) {
                const Real* sums = shared_.sums + m * n_sums;
                if (sums[margins_changed] > Real(0)) {
                    const Real h = sums[steps_changed] * inverse(sums[margins_changed]);
                    if (threadIdx.x == 0 && h == h) shared_.next_slope[m] = h;
                }
                const Real spread = variance_of(m), changed = sums[squares_changed] * inverse(Real(span_.count));
                square = max(square, spread > Real(0) ? changed * inverse(spread) : (changed > Real(0) ? Real(1) : Real(0)));
            }
            const Real worst = root(square);
            if (before > Real(0)) {
                const Real ratio = max(min(Real(1), worst * inverse(before)), least_ratio);
                control_.ratio = static_cast<float>(max(ratio, Real(0.7) * control_.ratio));
                ratio_size_ = span_.size;
            }
            unsettled_ = sweep > 1 ? static_cast<float>(not_chained * worst) * control_.ratio : 0.0f;
            // what the ratio is: of blocks of this size, and not long ago
            const bool known = sweep > 2 || (span_.size == ratio_size_ && control_.rounds % between_ratios != 0);
            const bool settled = sweep > 1 && known && !(unsettled_ > pass_.tolerance);
            before = sweep > 1 ? worst : Real(0);
            if (sweep >= most || gridDim.x == 1 || (pass_.sweeps == 0 && settled)) return sweep;
        }
    }

    // of predictions; where they are all alike, a little of their size
    __device__ Real variance_of(int m) const {
        const Real* sums = shared_.sums + m * n_sums;
        const Real count = inverse(Real(span_.count)), mean = sums[margin_sum] * count;
        const Real square = sums[margin_squares] * count;
        return max(square - mean * mean, Real(1e-4) * square);
    }

    // of two vectors with a number a direction, in four sums that do not wait for each other
    __device__ Real dot_of(const Real* a, const Real* b) const {
        Real sums[4] = {};
        int k = 0;
        for (; k + 4 <= rank(); k += 4)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] += a[k + i] * b[k + i];
        for (; k < rank(); ++k) sums[0] += a[k] * b[k];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    // Predictions from where the block is thought to start.
    __device__ void begin_sweep(bool again) {
        const int warps = blockDim.x / warp_size, lane = lane_id();
        for (int i = warp_id(); i < pass_.models * most_rows; i += warps) {
            const int m = i / most_rows, r = i % most_rows;
            if (r >= span_.mine) continue;
            Real sum = 0, intercept = 0;
            if (again) {
                for (int k = lane; k < rank(); k += warp_size) {
                    const Real start = shared_.start[m * rank() + k];
                    sum += shared_.q[r * q_stride() + k] * start;
                    intercept += shared_.turn[k] * start;
                }
                sum = sum_of_warp(sum);
                intercept = sum_of_warp(intercept);  // which does not decay
            }
            if (lane == 0) {
                const Real decay = shared_.facts[m].decay[r], b = static_cast<Real>(shared_.intercept[m]);
                shared_.before[i] = shared_.margins[i];
                shared_.margins[i] = decay * (shared_.products[i] + sum) + (Real(1) - decay) * intercept + b;
            }
        }
    }

    // The rows of this block for a model, row by row: one warp.
    __device__ void go(int m) {
        const int lane = lane_id(), at = m * most_rows + lane;
        const Facts& own = shared_.facts[m];
        const bool here = lane < span_.mine;
        const Real y = own.target[lane], weight = own.weight[lane], size = own.size[lane];
        const Real decay = own.decay[lane], after = own.after[lane], scale = size * weight;
        const Real pulled = pass_.kappa * pass_.pull;
        Real z = here ? shared_.margins[at] : Real(0);
        Real my_z = z, my_e = 0;
        // of the products of q, those with the intercept are not what L2 decays
        const Real undone = decay * pass_.kappa;
        const Real* gram = shared_.gram + min(lane, pass_.most_rows - 1);
        Real next = decay * gram[0] + (own.moves[0] - undone);
        for (int i = 0; i < span_.mine; ++i) {
            const Real h = next;
            const int following = min(i + 1, pass_.most_rows - 1);
            next = decay * gram[following * pass_.most_rows] + (own.moves[following] - undone);
            const Real e = scale * gradient(z, y, pass_.epsilon) * after;
            const Real e_i = __shfl_sync(all_lanes, e, i);
            if (lane == i) {
                my_z = z;
                my_e = e;
            }
            z -= e_i * h;
            if (pulled != Real(0)) z -= pulled * own.size[i];
        }
        // the mean of the directions that are not followed is all that is known about the rows after this one
        const Real later = static_cast<Real>(span_.count - 1 - (span_.first - span_.begin) - lane);
        const Real fade = exponential(-pass_.tail * shared_.slope[m] * size * later);
        shared_.margins[at] = my_z;
        shared_.steps[at] = here ? my_e : Real(0);
        shared_.faded[at] = here ? my_e * fade : Real(0);
    }

    // What the other blocks need to know of this one's rows.
    __device__ void send_sweep(bool again, bool checked) {
        for (int i = threadIdx.x; i < pass_.models * (rank() + rank()); i += blockDim.x) {
            const int m = i / (rank() + rank()), k = i % (rank() + rank());
            const Real* start = shared_.start + m * rank();
            if (k < rank()) {
                Real moved = 0, lean = 0;
                const Real* e = shared_.steps + m * most_rows;
                const Facts& own = shared_.facts[m];
#pragma unroll 4
                for (int r = 0; r < span_.mine; ++r) {
                    moved -= e[r] * shared_.q[r * q_stride() + k];
                    lean += e[r] * (pass_.kappa - own.moves[r]) - pass_.kappa * pass_.pull * own.size[r];
                }
                if (pass_.kappa > Real(0)) moved += shared_.turn[k] * lean * inverse(pass_.kappa);
                const Real keep = exponential(-shared_.rate[m * rank() + k]);
                send(told(m * width() + k, blockIdx.x), moved + (Real(1) - keep) * start[k], message_);
            } else {
                Real sum = 0;
                const Real* e = shared_.faded + m * most_rows;
#pragma unroll 4
                for (int r = 0; r < span_.mine; ++r) sum += e[r] * shared_.q[r * q_stride() + k - rank()];
                send(told(m * width() + columns() + k - rank(), blockIdx.x), sum, message_);
            }
        }
        const int warps = blockDim.x / warp_size, lane = lane_id();
        for (int m = warps - 1 - warp_id(); m < pass_.models; m += warps) {
            const bool here = lane < span_.mine;
            const Real z = shared_.margins[m * most_rows + lane], old = shared_.before[m * most_rows + lane];
            const Facts& own = shared_.facts[m];
            const Real y = own.target[lane], moved = again && here ? z - old : Real(0);
            Real sums[n_sums];
            const Real change = jumps || !again ? (here ? probe : Real(0)) : moved;
            sums[steps_changed] = own.weight[lane] * fabs(gradient(z, y, pass_.epsilon) -
                                                          gradient(z - change, y, pass_.epsilon));
            sums[margins_changed] = fabs(change);
            sums[squares_changed] = moved * moved;
            sums[margin_sum] = here ? z : Real(0);
            sums[margin_squares] = here ? z * z : Real(0);
            sums[drift_squares] = lane == 0 && checked ? shared_.drift[m] : Real(0);
#pragma unroll
            for (int s = 0; s < n_sums; ++s) sums[s] = sum_of_warp(sums[s]);
            if (lane == 0)
#pragma unroll
                for (int s = 0; s < n_sums; ++s)
                    send(told(m * width() + rank() + s, blockIdx.x), sums[s], message_);
        }
    }

    // Where this block starts, where the last one ends, as the chain of all blocks says; and the sums over all blocks.
    // Every column is chained by one warp, somewhere.
    __device__ void chain() {
        const int all = pass_.models * width(), warps = blockDim.x / warp_size;
        for (int column = static_cast<int>(blockIdx.x) + gridDim.x * warp_id(); column < all; column += gridDim.x * warps)
            chain_column(column);
        for (int i = threadIdx.x; i < all + pass_.models * rank(); i += blockDim.x) {
            Real value[1];
            receive(answer(blockIdx.x, i), 0, 1, message_, value);
            const int m = i / width(), k = i % width();
            if (i >= all)
                shared_.start[i - all] = value[0];
            else if (k < rank())
                shared_.end[m * rank() + k] = value[0];
            else if (k < columns())
                shared_.sums[m * n_sums + k - rank()] = value[0];
            else
                shared_.back[m * rank() + k - columns()] = value[0];
        }
        __syncthreads();
    }

    __device__ void chain_column(int column) {
        const int m = column / width(), k = column % width(), blocks = gridDim.x, lane = lane_id();
        const int used = (span_.count + span_.size - 1) / span_.size;  // blocks that have rows
        const Real rate = k < rank() ? shared_.rate[m * rank() + k] : Real(0), keep = exponential(-rate);
        const int length = (blocks + warp_size - 1) / warp_size, from = lane * length;
        Real values[most_length], sum = 0, factor = 1;
        receive(told(column, from), words, min(max(0, blocks - from), length), message_, values);
#pragma unroll
        for (int i = 0; i < most_length; ++i) {
            if (i >= length || from + i >= used) continue;
            sum = keep * sum + values[i];
            factor *= keep;
        }
        // the sums of the lanes before, each with what those after it leave of it
        Real before = sum, left = factor;
        for (int offset = 1; offset < warp_size; offset *= 2) {
            const Real other = __shfl_up_sync(all_lanes, before, offset);
            const Real others = __shfl_up_sync(all_lanes, left, offset);
            if (lane >= offset) {
                before += left * other;
                left *= others;
            }
        }
        const Real end = __shfl_sync(all_lanes, before, warp_size - 1);
        Real start = __shfl_up_sync(all_lanes, before, 1);
        if (lane == 0) start = 0;
        const int at = pass_.models * width() + m * rank() + k;
#pragma unroll
        for (int i = 0; i < most_length; ++i) {
            if (i >= length || from + i >= blocks) continue;
            if (k < rank()) send(answer(from + i, at), start, message_);
            send(answer(from + i, column), end, message_);
            if (from + i < used) start = keep * start + values[i];
        }
    }

    // ∫ t² e^{−x (1 − t)} dt from 0 to 1: what is left at the end of a round of the squares of errors that grow with the
    // rows before them and fade with those after
    __device__ static Real part_left(Real x) {
        if (x < Real(0.5)) return Real(1.0 / 3) - x * (Real(1.0 / 12) - x * (Real(1.0 / 60) - x * Real(1.0 / 360)));
        const Real part = inverse(x);
        return part * (Real(1) - Real(2) * part * (Real(1) - part * (Real(1) - exponential(-x))));
    }

    __device__ void steer(bool checked) {
        double error = 0, spreads = checked ? 0 : 1;
        for (int m = 0; checked && m < pass_.models; ++m) {
            const Real drift = shared_.sums[m * n_sums + drift_squares] / span_.count;
            const Real pace = step_at(pass_, m, span_.begin) * shared_.slope[m];
            Real sum = pass_.squares * pass_.squares * Real(1.0 / 3);
            for (int k = 0; k < rank(); ++k) {
                const Real sharpness = shared_.sharpness[k];
                sum += sharpness * sharpness * part_left(Real(2) * pace * sharpness * rows_checked_);
            }
            error += static_cast<double>(pace) * pace * drift * rows_checked_ * sum;
            spreads += variance_of(m);
        }
        error = max(sqrt(error / spreads), 0.5 * static_cast<double>(unsettled_));
        if (!(error <= 1.0)) error = 1.0;
        control_.errors += error;
        control_.checks += 1;
        constexpr int fewest_between = 4, most_between = 64;
        if (error <= pass_.tolerance) {
            control_.strikes = 0;
            control_.stuck = min(control_.stuck, 0);
            control_.between = min(2 * control_.between, most_between);
            if (control_.rows >= control_.too_large) control_.too_large = 1 << 30;
            const double share = 2 * control_.rows < control_.too_large ? 0.5 : 0.25;
            if (error < share * pass_.tolerance && control_.rows < pass_.most) {
                control_.rows = min(2 * control_.rows, pass_.most);
                control_.since = control_.between = 1;
            }
            return;
        }
        control_.between = 1;
        if (control_.rows == 1) {
            control_.stuck += 1;
            control_.between = fewest_between;
            return;
        }
        if (++control_.strikes < 2 && error <= 2 * pass_.tolerance) return;
        control_.strikes = 0;
        control_.too_large = control_.rows;
        for (double left = error; left > pass_.tolerance && control_.rows > 1; left *= 0.5) control_.rows /= 2;
        control_.since = 1;
    }

    __device__ void add_losses() {
        const int warps = blockDim.x / warp_size, lane = lane_id();
        for (int m = warp_id(); m < pass_.models; m += warps) {
            const Real z = shared_.margins[m * most_rows + lane], y = shared_.facts[m].target[lane];
            const double sum = sum_of_warp<double>(lane < span_.mine ? loss_value(z, y, pass_.epsilon) : Real(0));
            if (lane == 0) shared_.losses[m] += sum;
        }
    }

    const Pass& pass_;
    const Parts& shared_;
    Span span_;
    Rows rows_;
    Control control_;
    int rows_checked_ = 0;
    int ratio_size_ = 0;  // rows of a block when the ratio was measured last
    unsigned message_ = 0;
    float unsettled_ = 0;  // what one more sweep would change
};

extern "C" __global__ void __launch_bounds__(512, 1) rounds_pass(const __grid_constant__ Pass pass) {
    Rounds(pass).run();
}

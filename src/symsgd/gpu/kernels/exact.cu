// Sequential SGD over dense rows, exactly: z_i = x_i·w_i + b_i for every row in turn.
//
// With w_i = S_i v_i, S the product of the decays so far and e_j = c_j / S_{j+1} the step that row j makes of v,
//
//     x_i·v_i = x_i·v − Σ_{j since v} (x_j·x_i) e_j
//
// so that what is serial takes place in numbers a row, and everything else is matrix products. Rows are cut into blocks
// of BLOCK. A model has one block of threads, its *chain*, that goes from row to row; the others are *workers*, who have
// a slice of the features each. While the chain is in block k + 1, workers take the steps of block k, bring v up to
// date, and predict block k + 2 with it. The steps of block k + 1 are missing in that prediction: the chain has the
// products of every row with the rows after it in its own block and in the next (`gram`), and adds them itself.
//
// Within a block the chain goes by tiles of 32 rows, one a lane of its first warp. That warp adds the steps of a tile to
// the predictions of the tile itself and of the next one, the other warps to those of all later tiles, one tile behind.

#ifndef BLOCK
#define BLOCK 128
#endif

constexpr int block_rows = BLOCK;
constexpr int tile = warp_size;
constexpr int tiles = block_rows / tile;
constexpr int reach = 2 * block_rows;  // rows that a row's products are with: its own block and the next
constexpr int tile_slots = 4;          // of products: the tile being added, the two after it, and one under way
constexpr int block_slots = 4;         // of what is kept a block
constexpr int chunk = 8;               // steps whose products are fetched at a time

struct Pass {
    const Real* X;
    long long stride;      // of X, in numbers
    const int* rows;       // positions → rows of X
    int count;             // positions
    int features;
    int models;
    int slice;             // features of a worker, a multiple of 4
    int staged;            // workers keep their slices of rows in shared memory
    int aligned;           // slices of rows may be copied 16 bytes at a time
    const Real* gram;      // blocks × block_rows × reach
    const Real* step;      // step sizes: models × count, or count for all
    const Real* decay;     // S: models × (count + 1), or count + 1 for all
    int per_model;         // whether step and decay are by model
    Targets targets;
    Real epsilon, kappa, pull;
    Real* v;               // models × features
    double* intercept;     // models
    Real* steps;           // models × count: the e of every row
    double* losses;        // models: their sum
    Real* partial;         // block_slots × models × workers × block_rows
    unsigned* chained;     // models: blocks that the chain has done
    unsigned* worked;      // block_slots × models: how often workers have delivered predictions there
};

// The step c of a row whose prediction is z. PASSIVE: 0, or 1 and 2 for PA-I and PA-II.
__device__ inline Real step_of(const Pass& pass, Real z, Real y, Real weight, Real size, Real norm) {
    const Real g = gradient(z, y, pass.epsilon);
#if PASSIVE == 1
    return norm > Real(0) ? weight * g * min(size, loss_value(z, y, pass.epsilon) / norm) : Real(0);
#elif PASSIVE == 2
    return weight * g * loss_value(z, y, pass.epsilon) / (norm + Real(0.5) / size);
#else
    return (size * weight) * g;
#endif
}

// What the chain knows of a tile's rows before it comes to them.
struct TileFacts {
    Real target[tile], weight[tile], size[tile], decay[tile], after[tile], moves[tile];
};

struct Chain {
    const Pass& pass;
    const int model, workers;
    Real* products;      // tile_slots × tile × reach
    Real* added;         // block_slots × block_rows: the steps of tiles before
    Real* predicted;     // block_slots × block_rows: x·v of workers
    Real* sent;          // 2 × tile: e of a tile, for the other warps
    Real* margins;       // 2 × tile: z
    TileFacts* facts;    // 3
    int n_tiles, n_blocks;

    __device__ Chain(const Pass& pass, int model, int workers, Real* shared)
        : pass(pass), model(model), workers(workers) {
        products = shared;
        added = products + tile_slots * tile * reach;
        predicted = added + block_slots * block_rows;
        sent = predicted + block_slots * block_rows;
        margins = sent + 2 * tile;
        facts = reinterpret_cast<TileFacts*>(margins + 2 * tile);
        n_tiles = (pass.count + tile - 1) / tile;
        n_blocks = (pass.count + block_rows - 1) / block_rows;
    }

    // The products of tile `at` with the rows from itself on: columns before it are never read.
    __device__ void fetch_products(int at, int thread, int threads) {
        if (at >= n_tiles) return;
        Real* to = products + (at % tile_slots) * tile * reach;
        const int first = (at % tiles) * tile;
        const Real* from = pass.gram + (static_cast<long long>(at) * tile) * reach;
        constexpr int numbers = 16 / sizeof(Real);
        const int pieces = (reach - first) / numbers;
        for (int i = thread; i < tile * pieces; i += threads) {
            const int at_number = (i / pieces) * reach + first + (i % pieces) * numbers;
            copy_16(to + at_number, from + at_number);
        }
        commit_copies();
    }

    __device__ void fetch_facts(int at, int lane) {
        if (at >= n_tiles) return;
        TileFacts& to = facts[at % 3];
        const int position = at * tile + lane;
        if (position >= pass.count) {
            to.target[lane] = Real(1);
            to.weight[lane] = to.size[lane] = Real(0);
            to.decay[lane] = to.after[lane] = Real(1);
            to.moves[lane] = Real(0);
            return;
        }
        const Real y = pass.targets.target(position, model);
        const long long own = pass.per_model ? model : 0;
        const Real* decay = pass.decay + own * (pass.count + 1) + position;
        to.target[lane] = y;
        to.weight[lane] = pass.targets.weigh(position, model, y);
        to.size[lane] = pass.step[own * pass.count + position];
        to.decay[lane] = decay[0];
        to.after[lane] = Real(1) / decay[1];
        to.moves[lane] = pass.kappa * decay[1];  // κ c for a step e = c / S
    }

    // Sums what workers have predicted of a block; waits for them.
    __device__ void collect(int block, int thread, int threads) {
        if (block >= n_blocks) return;
        const int slot = block % block_slots;
        const unsigned wanted = static_cast<unsigned>(workers) * (block / block_slots + 1);
        if (lane_id() == 0)
            while (load_acquire(pass.worked + slot * pass.models + model) < wanted) {
            }
        __syncwarp();
        const Real* from = pass.partial + (static_cast<long long>(slot) * pass.models + model) * workers * block_rows;
        for (int i = thread; i < block_rows; i += threads) {
            Real sum = 0;
#pragma unroll 16
            for (int w = 0; w < workers; ++w) sum += load(from + w * block_rows + i);
            predicted[slot * block_rows + i] = sum;
            added[((block + 1) % block_slots) * block_rows + i] = Real(0);
        }
    }

    // The steps of tile `at` added to all tiles but itself and the next, up to the end of the next block.
    __device__ void add_later(int at, int thread, int threads) {
        const int first = (at % tiles) * tile, block = at / tiles;
        const Real* h = products + (at % tile_slots) * tile * reach;
        const Real* e = sent + (at % 2) * tile;
        for (int column = first + 2 * tile + thread; column < reach; column += threads) {
            Real sum = 0;
#pragma unroll
            for (int i = 0; i < tile; ++i) sum += e[i] * h[i * reach + column];
            const int slot = (block + column / block_rows) % block_slots;
            added[slot * block_rows + column % block_rows] -= sum;
        }
    }

    // Row after row of tile `at`, one a lane of the first warp. `next` is what it adds to the next tile.
    //
    // The chain from row to row is one multiplication and addition, the gradient, and telling the other lanes: what a
    // row's step does to the predictions z of later ones, weights and intercept in one, is made ready beside it.
    __device__ void go(int at, Real& next, double& intercept) {
        const int lane = lane_id(), first = (at % tiles) * tile;
        const bool there_is_one = at * tile + lane < pass.count;
        const int place = ((at / tiles) % block_slots) * block_rows + first + lane;
        const Real* h = products + (at % tile_slots) * tile * reach + first + lane;
        const TileFacts& own = facts[at % 3];
        const Real y = own.target[lane], weight = there_is_one ? own.weight[lane] : Real(0), size = own.size[lane];
        const Real decay = own.decay[lane], after = own.after[lane];
        const Real norm = PASSIVE ? h[lane * reach] : Real(0);
        const Real kappa = pass.kappa;
        Real z = decay * (predicted[place] + added[place] + next) + static_cast<Real>(intercept);
        Real my_z = 0, my_c = 0;
        next = 0;
        Real here[2][chunk], there[2][chunk];
        ready(own, h, 0, decay, here[0], there[0]);
#pragma unroll
        for (int i = 0; i < tile; ++i) {
            const int in_use = (i / chunk) % 2;
            if (i % chunk == 0 && i + chunk < tile) ready(own, h, i + chunk, decay, here[1 - in_use], there[1 - in_use]);
            const Real c = step_of(pass, z, y, weight, size, norm);
            const Real e = __shfl_sync(all_lanes, c * after, i);
            if (lane == i) {
                my_z = z;
                my_c = c;
            }
            if (pass.pull != Real(0)) z -= kappa * pass.pull * own.size[i];
            z -= e * here[in_use][i % chunk];
            next -= e * there[in_use][i % chunk];
        }
        intercept -= static_cast<double>(sum_of_warp(kappa * (my_c + pass.pull * size)));
        sent[(at % 2) * tile + lane] = my_c * after;
        margins[(at % 2) * tile + lane] = my_z;
        const int position = at * tile + lane;
        if (there_is_one)
            store(pass.steps + static_cast<long long>(model) * pass.count + position, my_c * after);
    }

    // What the steps of rows i … i + chunk do to this lane's prediction, and to the next tile's x·v.
    __device__ void ready(const TileFacts& own, const Real* h, int i, Real decay, Real (&here)[chunk], Real (&there)[chunk]) const {
#pragma unroll
        for (int k = 0; k < chunk; ++k) {
            here[k] = decay * h[(i + k) * reach] + own.moves[i + k];
            there[k] = h[(i + k) * reach + tile];
        }
    }

    __device__ double loss_of(int at, int lane) const {
        if (at * tile + lane >= pass.count) return 0.0;
        return loss_value(margins[(at % 2) * tile + lane], facts[at % 3].target[lane], pass.epsilon);
    }

    __device__ void run() {
        const int helper = threadIdx.x - warp_size, helpers = blockDim.x - warp_size;
        const bool leads = warp_id() == 0, last_warp = warp_id() == static_cast<int>(blockDim.x) / warp_size - 1;
        double intercept = pass.intercept[model], lost = 0;
        Real next = 0;
        for (int i = threadIdx.x; i < block_slots * block_rows; i += blockDim.x) added[i] = Real(0);
        if (!leads) {
            fetch_products(0, helper, helpers);
            fetch_products(1, helper, helpers);
            if (last_warp) {
                fetch_facts(0, lane_id());
                fetch_facts(1, lane_id());
            }
            collect(0, helper, helpers);
            wait_for_copies();
        }
        __syncthreads();
        for (int at = 0; at < n_tiles; ++at) {
            if (leads) {
                go(at, next, intercept);
                if ((at + 1) % tiles == 0 || at + 1 == n_tiles) {
                    __syncwarp();
                    if (lane_id() == 0) {
                        __threadfence();
                        store_release(pass.chained + model, at / tiles + 1);
                    }
                }
            } else {
                // the facts of tile at + 1 are in use beside these, those of at − 1 no more once its losses are summed
                if (at > 0) {
                    add_later(at - 1, helper, helpers);
                    if (last_warp) lost += loss_of(at - 1, lane_id());
                }
                fetch_products(at + 2, helper, helpers);
                if (last_warp) fetch_facts(at + 2, lane_id());
                if ((at + 1) % tiles == 0) collect(at / tiles + 1, helper, helpers);
                wait_for_copies();
            }
            __syncthreads();
        }
        if (last_warp) {
            lost = sum_of_warp(lost + loss_of(n_tiles - 1, lane_id()));
            if (lane_id() == 0) pass.losses[model] = lost;
        }
        if (threadIdx.x == 0) pass.intercept[model] = intercept;
    }
};

struct Worker {
    const Pass& pass;
    const int worker, workers, begin, width, padded;
    Real* rows;     // block_slots × block_rows × padded, where staged
    Real* v;        // models × width
    Real* e;        // block_rows
    Real* sums;     // blockDim.x
    int n_blocks;

    __device__ Worker(const Pass& pass, int worker, int workers, Real* shared)
        : pass(pass), worker(worker), workers(workers), begin(worker * pass.slice),
          width(min(pass.slice, pass.features - worker * pass.slice)), padded(pass.slice + 4) {
        rows = shared;
        v = rows + (pass.staged ? block_slots * block_rows * padded : 0);
        e = v + pass.models * pass.slice;
        sums = e + block_rows;
        n_blocks = (pass.count + block_rows - 1) / block_rows;
    }

    __device__ int rows_of(int block) const { return min(block_rows, pass.count - block * block_rows); }

    __device__ const Real* row(int block, int i) const {
        if (pass.staged) return rows + ((block % block_slots) * block_rows + i) * padded;
        return pass.X + static_cast<long long>(pass.rows[block * block_rows + i]) * pass.stride + begin;
    }

    __device__ void fetch(int block) {
        if (!pass.staged || block >= n_blocks) return;
        const int here = rows_of(block);
        Real* to = rows + (block % block_slots) * block_rows * padded;
        const int* order = pass.rows + block * block_rows;
        if (pass.aligned) {
            constexpr int numbers = 16 / sizeof(Real);
            const int pieces = (width + numbers - 1) / numbers;  // a row of X has as many numbers, if with padding
            for (int i = threadIdx.x; i < here * pieces; i += blockDim.x) {
                const int r = i / pieces, p = (i % pieces) * numbers;
                copy_16(to + r * padded + p, pass.X + static_cast<long long>(order[r]) * pass.stride + begin + p);
            }
            commit_copies();
            return;
        }
        for (int i = threadIdx.x; i < here * width; i += blockDim.x) {
            const int r = i / width, p = i % width;
            to[r * padded + p] = pass.X[static_cast<long long>(order[r]) * pass.stride + begin + p];
        }
    }

    __device__ void predict(int block, int model) {
        const int here = rows_of(block), parts = max(1, static_cast<int>(blockDim.x) / block_rows);
        const Real* own = v + model * pass.slice;
        for (int base = 0; base < block_rows * parts; base += blockDim.x) {
            const int at = base + threadIdx.x, i = at % block_rows, part = at / block_rows;
            const int share = (width + parts - 1) / parts, from = part * share, to = min(width, from + share);
            Real sum = 0;
            if (i < here && part < parts) {
                const Real* x = row(block, i);
#pragma unroll 8
                for (int f = from; f < to; ++f) sum += x[f] * own[f];
            }
            if (parts == 1) {
                if (i < block_rows) deliver(block, model, i, sum);
                continue;
            }
            sums[threadIdx.x] = sum;
            __syncthreads();
            if (threadIdx.x < block_rows) {
                for (int p = 1; p < parts; ++p) sum += sums[p * block_rows + threadIdx.x];
                deliver(block, model, threadIdx.x, sum);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            add_release(pass.worked + (block % block_slots) * pass.models + model, 1);
        }
    }

    __device__ void deliver(int block, int model, int i, Real sum) {
        const long long slot = block % block_slots;
        store(pass.partial + ((slot * pass.models + model) * workers + worker) * block_rows + i, sum);
    }

    // v −= Σ e x over a block's rows
    __device__ void update(int block, int model) {
        const int here = rows_of(block), threads = static_cast<int>(blockDim.x);
        for (int i = threadIdx.x; i < here; i += threads)
            e[i] = load(pass.steps + static_cast<long long>(model) * pass.count + block * block_rows + i);
        __syncthreads();
        Real* own = v + model * pass.slice;
        const int groups = max(1, threads / width);
        for (int first = 0; first < width; first += threads) {
            const int f = first + (groups > 1 ? static_cast<int>(threadIdx.x) % width : static_cast<int>(threadIdx.x));
            const int group = groups > 1 ? static_cast<int>(threadIdx.x) / width : 0;
            Real sum = 0;
            if (f < width && group < groups) {
                if (pass.staged) {
                    const Real* x = row(block, 0) + f;
#pragma unroll 8
                    for (int i = group; i < here; i += groups) sum += e[i] * x[i * padded];
                } else {
#pragma unroll 4
                    for (int i = group; i < here; i += groups) sum += e[i] * row(block, i)[f];
                }
            }
            sums[threadIdx.x] = sum;
            __syncthreads();
            if (f < width && group == 0) {
                for (int g = 1; g < groups; ++g) sum += sums[g * width + f];
                own[f] -= sum;
            }
            __syncthreads();
        }
    }

    __device__ void run() {
        for (int m = 0; m < pass.models; ++m)
            for (int f = threadIdx.x; f < width; f += blockDim.x)
                v[m * pass.slice + f] = pass.v[static_cast<long long>(m) * pass.features + begin + f];
        for (int block = 0; block < 3; ++block) fetch(block);
        wait_for_copies();
        __syncthreads();
        for (int m = 0; m < pass.models; ++m)
            for (int block = 0; block < min(2, n_blocks); ++block) predict(block, m);
        for (int block = 0; block < n_blocks; ++block) {
            fetch(block + 3);
            for (int m = 0; m < pass.models; ++m) {
                if (threadIdx.x == 0)
                    while (load_acquire(pass.chained + m) < static_cast<unsigned>(block + 1)) {
                    }
                __syncthreads();
                update(block, m);
                if (block + 2 < n_blocks) predict(block + 2, m);
            }
            wait_for_copies();
            __syncthreads();
        }
        for (int m = 0; m < pass.models; ++m)
            for (int f = threadIdx.x; f < width; f += blockDim.x)
                pass.v[static_cast<long long>(m) * pass.features + begin + f] = v[m * pass.slice + f];
    }
};

extern "C" __global__ void __launch_bounds__(256, 1) exact_pass(const __grid_constant__ Pass pass) {
    SHARED_MEMORY(memory);
    Real* shared = reinterpret_cast<Real*>(memory);
    const int model = blockIdx.x, workers = static_cast<int>(gridDim.x) - pass.models;
    if (model < pass.models)
        Chain(pass, model, workers, shared).run();
    else
        Worker(pass, model - pass.models, workers, shared).run();
}

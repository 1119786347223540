// Rounds: what is told to a launch, what is decided from round to round, and which rows a round has.

constexpr int most_rows = warp_size;  // of a block
constexpr int n_sums = 6;
constexpr int batch = 8;         // numbers of other blocks that a thread waits for at once
constexpr int most_length = LENGTH;  // blocks of threads for every lane of a warp
constexpr int most_sweeps = 6;
constexpr int between_ratios = 32;  // rounds
constexpr int most_stuck = 4;  // then the rest of the rows is left to whoever goes row by row
// Changes get smaller from sweep to sweep by a ratio that is measured. Where gradients jump, a small change says nothing
// about the next; where they do not, the chain takes along to first order what blocks would do from other starts, and a
// half of what one more sweep would change is still a careful estimate of what that leaves.
#if LOSS_KIND == HINGE || LOSS_KIND == PERCEPTRON || LOSS_KIND == EPSILON_INSENSITIVE
constexpr Real least_ratio = Real(1), not_chained = Real(1);
constexpr bool jumps = true;
#else
constexpr Real least_ratio = Real(0.05), not_chained = Real(0.5);
constexpr bool jumps = false;
#endif
// How much gradients change with predictions is seen from sweep to sweep; where there is one sweep, or gradients jump and
// most do not change at all, from a change of this size.
constexpr Real probe = Real(0.25);
enum Sum { steps_changed, margins_changed, squares_changed, margin_sum, margin_squares, drift_squares };

// What is decided from round to round, and kept from launch to launch.
struct Control {
    int rows;       // of a block
    int too_large;  // a size whose error was too large
    int strikes;    // checks in a row with too large an error
    int since, between;  // rounds since the last check, and from one to the next
    float ratio;    // of what a sweep changes to what the one before it has changed
    // of this launch
    double errors;  // their sum
    int checks, rounds, sweeps_made;
    int stuck;      // checks in a row with too large an error at the least size
    int done;       // rows: all, unless it got stuck
};

// A part of the shared memory, by where it begins. Launches bring a list of them: what is not kept in registers by every
// thread is room for what is.
template <class T>
struct Part {
    int at;  // numbers of type Real before it

    __device__ operator T*() const {
        SHARED_MEMORY(memory);
        return reinterpret_cast<T*>(reinterpret_cast<Real*>(memory) + at);
    }
};

// What is known of a block's rows before the round begins, by model.
struct Facts {
    Real target[most_rows], weight[most_rows], size[most_rows], decay[most_rows], after[most_rows], moves[most_rows];
};

// As in planning.py. Numbers a row, a direction or a sum are there for every model.
struct Parts {
    Part<Real> q, gram, steps, faded, margins, before, products, expected, expected_next;
    Part<Real> sharpness, turn, start, end, rate, back, sums, drift, slope, next_slope, pace;
    Part<double> intercept, losses;
    Part<Facts> facts;
    Part<double> scale;                                                     // of sparse rows
    Part<Real> weights, scratch, rows;                                      // of dense ones
    Part<unsigned long long> ahead, rest;
};

struct Pass {
    const Real* X;      // rows × stride; of sparse rows the numbers stored,
    const int* indices;        // whose they are,
    const long long* starts;   // and where rows begin
    long long stride;
    const int* rows;    // positions → rows of X and of q
    int count, features, models, rank;
    int staged;         // rows are kept in shared memory,
    int slots;          // so many of them
    int most_rows;      // of a block, as there is room for
    int aligned;        // rows may be read 16 bytes at a time
    Parts parts;        // of the shared memory
    const Real* directions;  // V: places × rank; the intercept is one more place, which is not among them
    const int* places;       // features that directions have, or null: all
    int n_places;
    const Real* along;       // q: rows × rank, with the intercept's part
    const Real* sharpness;   // λ: rank
    const Real* turn;        // that part: what the directions have of the intercept, rank
    Real tail;               // λ of all other directions, in the mean
    Real squares;            // √ Σ λ² over all other directions
    const Real* step;        // as in exact.cu
    const double* decay;     // log S
    int per_model;
    Targets targets;
    Real epsilon, kappa, pull;
    Real* w;            // models × features, of dense rows
    long long* fixed;   // models × features in units of 2⁻⁴⁰, of sparse rows
    double* intercept;  // models
    Real* slope;        // models: h, how much gradients change with predictions
    double* losses;     // models × blocks: their sums
    // messages, all of them zero when the launch begins
    Word* told;         // 2 × columns × blocks: what a sweep has come to in each block
    Word* answers;      // 2 × blocks × (columns + models rank): where the chain ends, and where blocks start
    Word* partial;      // models × blocks × features: movements
    Word* weights;      // models × features; of sparse rows blocks
    int adapts;         // whether blocks follow the error,
    int most;           // up to so many rows
    int sweeps;         // of every round; 0: as many as are worth it
    float tolerance;
    Control* control;
};


__device__ inline double decay_at(const Pass& pass, int model, int position) {
    return pass.decay[static_cast<long long>(pass.per_model ? model : 0) * (pass.count + 1) + position];
}
__device__ inline Real step_at(const Pass& pass, int model, int position) {
    return pass.step[static_cast<long long>(pass.per_model ? model : 0) * pass.count + position];
}

// A round: its first position, its rows, rows a block, and those of this block.
struct Span {
    int begin, count, size, first, mine;
    int slot = 0;   // of its first row in shared memory
    int there = 0;  // rows that are there, or under way, before it is prepared

    __device__ Span(int begin, int size, int all) : begin(begin), size(size) {
        const long long wanted = static_cast<long long>(gridDim.x) * size;
        count = static_cast<int>(min(wanted, static_cast<long long>(max(0, all - begin))));
        const int offset = static_cast<int>(blockIdx.x) * size;
        first = begin + offset;
        mine = max(0, min(size, count - offset));
    }
};

// Of what L2 leaves of the weights in a round.
__device__ inline Real kept(const Pass& pass, const Span& span, int model) {
    const double after = decay_at(pass, model, span.begin + span.count);
    return static_cast<Real>(exp(after - decay_at(pass, model, span.begin)));
}

// The movement of a round: steps e of this block's rows, by model, and what V is to add, by model and direction.
struct Movement {
    const Real* steps;
    const Real* end;   // where the chain ends: models × rank
    const Real* back;  // what the rows have moved along V themselves: models × rank
    unsigned message;  // of this round
};

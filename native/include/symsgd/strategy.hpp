// Strategies: who trains which rows, which weights are whose, and how threads' models become one.
//
//                      replicated per thread   combiner                 threads meet
//   sequential         -                       -                        -
//   Hogwild!           nothing                 -                        never
//   HogBatch           nothing                 -                        never; mini-batches
//   round robin        nothing                 -                        updates take turns
//   rounds             all                     exact, projected, sum,   in rounds of one block a thread (MR-SymSGD);
//                                              mean, AdaGrad mean       once a pass: averaging, AllReduce
//   curvature          all                     curvature                in rounds
//   parameter server   all                     sum                      when a block ends
//   asynchronous       frequent features       projected, exact, sum    when a block ends; the rest is shared
//   async curvature    all                     curvature                when a block ends
//   sliced             nothing                 -                        every few rows; each thread has its features
//   directions         nothing                 -                        every few hundred rows; likewise
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "symsgd/features.hpp"
#include "symsgd/learn.hpp"
#include "symsgd/order.hpp"
#include "symsgd/read_ahead.hpp"
#include "symsgd/targets.hpp"

namespace symsgd {

enum class StrategyKind : std::uint8_t {
    sequential,
    hogwild,
    hogbatch,
    round_robin,
    rounds,
    curvature,
    parameter_server,
    asynchronous,
    async_curvature,
    sliced,
    directions
};

enum class CombinerKind : std::uint8_t { matrix, walk, projected, sum, mean, adagrad };

struct StrategySpec {
    StrategyKind kind = StrategyKind::sequential;
    int threads = 1;              // in rounds: blocks a round
    int cores = 1;                // in rounds: threads that work on them
    std::int64_t block_size = 0;  // rows; in rounds, 0 cuts a pass into one block a thread
    std::int64_t batch_size = 1;  // HogBatch, round robin
    CombinerKind combiner = CombinerKind::projected;
    int k = 0;                   // projected: columns; curvature, directions: rank, 0 for as many as pay
    bool keep = false;           // matrix: keep the combiners of the first pass
    int refine = -1;             // curvature: sweeps in every round, −1 for as many as the error asks for
    double tolerance = 0.01;     // curvature: of the measured error, which steers the size of the blocks
    bool renumber = false;       // curvature: a copy of the rows' indices with the frequent features in front
    int places = 4096;           // curvature: features, the most frequent ones, that its directions may have
    bool only_worth = true;      // curvature, block_size 0: no rounds where one thread is as fast
    double frequent = 0.1;       // asynchronous: the share of rows that makes a feature frequent
    std::int64_t sample = 1000;  // and the rows it is estimated from
};

struct TrainingSpec {
    Targets targets;
    Rule rule;
    StrategySpec strategy;
    OrderKind order = OrderKind::window;
    std::uint32_t seed = 0;
    const std::uint8_t* held_out = nullptr;
    double t = 1.0;                               // number of the first step
    bool mapped = false;                          // the rows are in a file: read ahead, and kept in no copy
    std::int64_t memory = std::int64_t{1} << 62;  // bytes that there are
};

// Asked every few milliseconds while a pass runs, always on the thread that runs it; true ends the pass after the rows
// under way.
using ShouldStop = std::function<bool()>;

struct PassSums {
    std::int64_t rows = 0;          // trained in this pass
    std::int64_t merges = 0;        // of blocks into the model
    std::vector<double> loss;       // mean over the rows, per class
    std::vector<double> objective;  // mean loss plus penalty, per class; equal to loss if norms are not tracked
    bool stopped = false;           // ShouldStop said so
    // curvature
    int rank = 0;             // of the last estimate
    std::int64_t sweeps = 0;  // of refinement
    double error = -1.0;      // mean of what was measured; below 0: nothing was
    std::int64_t alone = 0;   // rows trained one after the other
    std::int64_t caught = 0;  // merges that were not accepted
};

// Of a model whose norms are known.
inline double penalty_of(const Rule& rule, const Lane& lane) {
    return 0.5 * rule.penalty.l2 * lane.squares * lane.scale * lane.scale + rule.penalty.l1 * lane.sizes * lane.scale +
           rule.intercept_pull * lane.intercept;
}

// What a strategy works on.
template <class Rows>
struct Workspace {
    using V = typename Rows::Value;

    Rows rows;
    TrainingSpec spec;
    Order order;
    Model<V> model;
    const Kernels& kernels;
    const FeatureOrder* features = nullptr;  // that the rows number theirs by; null: as the caller does
    ReadAhead* ahead = nullptr;              // null: the data is in memory
    std::int64_t pass = 0;
};

template <class Rows>
class Strategy {
public:
    virtual ~Strategy() = default;

    // Trains one pass: the order is prepared, losses are added to the lanes of the model. Fills rows, merges, stopped.
    virtual void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) = 0;

    // What it has learned in the passes so far, beside the model, that later passes go by; most learn nothing. A
    // strategy that resumes is new, and the order is that of the first pass.
    virtual void save(const Workspace<Rows>&, StateWriter&) {}
    virtual void resume(Workspace<Rows>&, StateReader&) {}
};

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_sequential(const StrategySpec& spec);
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_shared_memory(const StrategySpec& spec);  // Hogwild!, HogBatch, round robin
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_rounds(const StrategySpec& spec);
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_curvature(const StrategySpec& spec);  // rounds merged by the curvature
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_asynchronous(const StrategySpec& spec);  // Async-SymSGD, parameter server
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_async_curvature(const StrategySpec& spec);  // Async-SymSGD by the curvature
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_sliced(const StrategySpec& spec);  // dense rows
template <class Rows>
std::unique_ptr<Strategy<Rows>> make_directions(const StrategySpec& spec);

// What a model needs for a rule.
ModelNeeds needs_of(const TrainingSpec& spec);

}  // namespace symsgd

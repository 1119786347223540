// One block of SGD: the only inner loop, shared by every strategy.
//
//   p = x·w + b,  u = −step × weight × g(p, y),  w ← max(0, 1 − step × l2) w + u x,  b ← b + κ (u − step × ν)
//
// with the L1 truncation, the averages and the sums of loss and objective beside it. The loop is compiled once per
// instruction set (src/kernels/) and reached through `Kernels`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "symsgd/loss.hpp"
#include "symsgd/model.hpp"
#include "symsgd/penalty.hpp"
#include "symsgd/rows.hpp"
#include "symsgd/schedule.hpp"

namespace symsgd {

// Everything about a step that does not change from row to row.
struct Rule {
    Loss loss;
    Penalty penalty;
    Schedule schedule;
    bool fit_intercept = true;
    double intercept_decay = 1.0;  // κ: 0.01 for sparse rows, as in scikit-learn
    double intercept_pull = 0.0;   // ν of the one-class SVM
    bool one_class = false;
    double average_from = 0.0;    // the step from which iterates are averaged; 0: never
    bool track_norms = false;     // keep the norms that turn losses into objectives
    bool repeats = false;         // a row may have a feature more than once
    bool soft_curvature = false;  // tangents use the secant of the gradient, for losses whose gradient jumps
};

// Rows `order[0 … count)`, their targets and weights (see Targets::read); `order[count … known)` come next and are only
// fetched ahead. `class_ids` and the weights of classes, one a lane, are for several lanes.
struct Block {
    const std::int64_t* order;
    std::size_t count;
    std::size_t known;
    const double* target;
    const double* weight;
    const double* class_ids;
    const double* positive_weight;
    const double* negative_weight;
};

// Steps computed but not yet made: `stride` numbers a row for the weights, one a class for the intercepts.
template <class V>
struct Delayed {
    V* steps;
    double* moves;
};

template <class Rows>
struct SplitKernel {};  // dense rows have every feature: there is nothing to sort

template <class V, class I>
struct SplitKernel<SparseRows<V, I>> {
    void (*learn_split)(const SplitRows<V, I>&, const Block&, const Rule&, ModelView<V>&);
};

// All there is for rows that are a copy.
template <class Rows>
struct OwnKernels {
    using V = typename Rows::Value;
    // `model` belongs to the caller
    void (*learn)(const Rows&, const Block&, const Rule&, ModelView<V>&);
};

template <class Rows>
struct RowKernels : SplitKernel<Rows>, OwnKernels<Rows> {
    using V = typename Rows::Value;
    // its weights and intercepts are everybody's; lanes and scratch are the caller's
    void (*learn_shared)(const Rows&, const Block&, const Rule&, ModelView<V>&);
    // the same in two parts: all predictions of the block, then all its updates
    void (*delay_shared)(const Rows&, const Block&, const Rule&, ModelView<V>&, const Delayed<V>&);
    void (*apply_shared)(const Rows&, const Block&, const Rule&, ModelView<V>&, const Delayed<V>&);
    // scores[row × classes + class] = x·w + b for rows [begin, end); weights are features × stride, side by side
    void (*decide)(const Rows&, std::int64_t begin, std::int64_t end, const V* weights, int classes, int stride,
                   const double* intercept, V* scores);
};

template <class V>
struct ModelKernels {
    void (*finish_pass)(const Rule&, ModelView<V>&);  // brings lazy penalties and sums up to date
    void (*measure)(ModelView<V>&);                   // recomputes the sums of squares and sizes the lanes keep
    // see merge.hpp
    void (*project)(const ModelView<V>&, const V* initial, const V* moved, V* v);
    void (*correct)(const ModelView<V>&, const V* initial, const V* v, V* out);
    void (*draw_projection)(const std::uint32_t* seeds, std::int64_t rows, int columns, std::int64_t stride, int k,
                            V* out);
};

// A sparse sample of the rows, as the spectrum sees it.
template <class V>
struct SampleView {
    std::int64_t rows;
    const std::int64_t* start;
    const std::int32_t* place;
    const V* value;
};

// A stretch of features that the chain of a round with sweeps goes along. Arrays of pointers and numbers are by block.
template <class V>
struct Followed {
    std::int64_t begin, end;  // features
    int blocks;
    const V* weights;  // of the model
    const V* factors;
    V* const* ends;    // where blocks have ended; becomes where they should have started, unless this is the last time
    V* const* missed;  // v°, what of v they started with; becomes v
    const V *scales, *ended, *begun, *inverse, *keeps;  // inverse: 1 / the scale that a block starts with
    V all;                                              // what becomes of a weight that no block touches
    std::int64_t places, room;                          // the first features of the stretch have rows in Q:
    const V* own;                                       // Q s̃ by block, `room` apart
    const V* chained;                                   // Q u by block, from block `chained_from` on
    int chained_from;
    bool again, last;
    V* next;       // becomes the end of the chain
    V* checked;    // becomes where the last block should have started, the last time; may be null
    V checked_by;  // 1 / its scale
};

// See kernels/curvature-inl.hpp and kernels/follow-inl.hpp.
template <class V>
struct CurvatureKernels {
    void (*multiply_rows)(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out);
    void (*add_products)(const V* a, std::int64_t rows, int inner, const V* b, int columns, V* out);
    void (*multiply_sample)(const SampleView<V>& sample, int inner, bool back, V* q, V* t);
    double (*chain_weights)(const V* const* ends, const V* scales, const V* keeps, const V* befores, int count,
                            const V* w, const V* factors, std::int64_t begin, std::int64_t end, V* out);
    void (*chain_directions)(const V* q, std::int64_t room, int inner, std::int64_t places, const V* b, int count,
                             int column, const V* keeps, const V* factors, V* out);
    void (*take_movement)(V* w, V* before, const V* moved, std::int64_t count, V kept, V by);
    void (*multiply_along)(const V* q, std::int64_t q_room, int inner, std::int64_t places, const V* b, int columns,
                           V* out, std::int64_t room);
    void (*follow)(const Followed<V>&);
    void (*norms_changed)(const V* now, const V* before, std::int64_t count, double* squares, double* sizes);
};

// See kernels/gram-inl.hpp and kernels/slice-inl.hpp.
template <class V>
struct GramKernels {
    void (*learn)(const GramRows<V>&, const Block&, const Rule&, ModelView<V>&);
    // 16 rows of `columns` numbers, see kernels/settle-inl.hpp; false, with nothing changed, where that is not the way
    bool (*settle)(const V* const* q, int columns, const V* scores, const V* squares, const Block& block,
                   const Rule& rule, ModelView<V>& model, V* moved, V* steps);
    void (*multiply)(const V* const* rows, const V* const* later, int n, std::int64_t begin, std::int64_t end,
                     const V* weights, int stride, V* products, V* scores);
    void (*score)(const V* const* rows, const V* const* later, int n, std::int64_t begin, std::int64_t end,
                  const V* weights, int stride, V* scores);
    void (*project)(const V* const* rows, int n, std::int64_t count, const V* directions, int columns, V* out);
    void (*square)(const V* const* rows, int n, std::int64_t count, V* out);
    void (*add_parts)(const V* const* parts, int count, std::int64_t begin, std::int64_t end, V* out);
    void (*move)(const V* const* rows, int n, std::int64_t begin, std::int64_t end, const V* steps, const V* keep,
                 V* weights, int stride);
};

// See kernels/strip-inl.hpp.
template <class V>
struct StripKernels {
    void (*score)(const SparseRows<V, std::int32_t>& rows, const std::int64_t* order, std::int64_t n, const V* weights,
                  int stride, V* out);
    void (*move)(const SparseRows<V, std::int32_t>& rows, const std::int64_t* order, std::int64_t n, const V* steps,
                 V* weights, int stride);
    void (*project)(const std::int32_t* place, const V* value, std::int64_t count, const V* directions, int columns,
                    V* out);
};

template <class... Rows>
using RowKernelsTuple = std::tuple<RowKernels<Rows>...>;
template <class... Rows>
using OwnKernelsTuple = std::tuple<OwnKernels<Rows>...>;

struct Kernels {
    const char* name;
    ForAllRows<RowKernelsTuple> rows;
    ForCopiedRows<OwnKernelsTuple> copied;
    std::tuple<ModelKernels<float>, ModelKernels<double>> models;
    std::tuple<CurvatureKernels<float>, CurvatureKernels<double>> curvature;
    std::tuple<GramKernels<float>, GramKernels<double>> gram;
    std::tuple<StripKernels<float>, StripKernels<double>> strips;

    template <class Rows>
    const auto& of_rows() const {
        if constexpr (are_copied<Rows>)
            return std::get<OwnKernels<Rows>>(copied);
        else
            return std::get<RowKernels<Rows>>(rows);
    }
    template <class V>
    const CurvatureKernels<V>& of_curvature() const {
        return std::get<CurvatureKernels<V>>(curvature);
    }
    template <class V>
    const GramKernels<V>& of_gram() const {
        return std::get<GramKernels<V>>(gram);
    }
    template <class V>
    const StripKernels<V>& of_strips() const {
        return std::get<StripKernels<V>>(strips);
    }
    template <class V>
    const ModelKernels<V>& of_models() const {
        return std::get<ModelKernels<V>>(models);
    }
};

// The kernels for this machine, chosen once per process: the widest set it has, or what SYMSGD_ISA names.
// Throws std::invalid_argument if SYMSGD_ISA names a set that is unknown or that this machine lacks.
const Kernels& kernels();

}  // namespace symsgd

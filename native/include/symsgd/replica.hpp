// A copy of the model, or of the part of it that a block needs, that belongs to one thread while it trains the block.
//
// A replica starts from the model as it is when the block begins, remembers what it started from (`initial`), and is
// merged into the model when the block has ended and the model has moved on (see merge.hpp). Its scale starts at 1.
// Its local feature i is the model's feature observed[i], or i itself if it is a copy of everything.
#pragma once

#include <cstdint>
#include <vector>

#include "symsgd/learn.hpp"
#include "symsgd/model.hpp"

namespace symsgd {

// How the columns of A begin: at random, as the identity, as the movement itself (filled in by the merge), or not at
// all.
enum class Columns : std::uint8_t { none, random, identity, movement };

struct ReplicaShape {
    Columns columns = Columns::none;
    int k = 0;           // columns at random
    bool whole = false;  // all features, in their own places
    bool apart = false;  // the penalty's own effect is needed apart from the rest (L1: see merge.hpp)
};

// Where a block stands.
struct BlockPlace {
    std::int64_t number = 0;   // in the pass
    double t = 1.0;            // the number of its first step
    std::vector<double> owed;  // L1: per class, at its first step
    std::uint32_t seed = 0;
    std::int64_t pass = 0;
};

// What a replica of `features` has that the model, which has `needs`, has not.
ModelNeeds with_columns(ModelNeeds needs, const ReplicaShape& shape, std::int64_t features);

template <class V>
class Replica {
public:
    // Room for `features` at most.
    Replica(std::int64_t features, int classes, const Rule& rule, ModelNeeds base, ReplicaShape shape);

    // Starts from `global`: lanes, observed weights and what belongs to them, fresh columns.
    void pull(ModelView<V> global, const BlockPlace& place, const Kernels& kernels);

    // Starts again from where the block began, the only tangent being how far `global` has moved since.
    void restart_along_movement(ModelView<V> global, double t);

    // How far `global` has moved since the pull, as far as the replica knows it: fills `moved`.
    void measure_movement(ModelView<V> global);

    ModelView<V> view();
    std::int64_t count() const { return shape_.whole ? features_ : static_cast<std::int64_t>(observed.size()); }
    std::int64_t room() const { return features_; }
    std::int64_t at(std::int64_t i) const { return shape_.whole ? i : observed[static_cast<std::size_t>(i)]; }
    const ReplicaShape& shape() const { return shape_; }
    const ModelNeeds& needs() const { return model_.needs(); }
    Model<V>& model() { return model_; }

    std::vector<std::int64_t> observed;  // filled by whoever renumbers the block's rows

    Array<V> initial;           // weights and tangents as they started, like the model's
    Array<V> initial_received;  // L1
    Array<V> initial_halves;    // Lasso
    std::vector<V> initial_tangent_intercepts;
    std::vector<Lane> initial_lanes;
    Array<V> moved;  // count × classes: of the weights
    std::vector<double> moved_intercepts;
    Array<V> corrections;      // room for the merge: count × classes
    std::vector<V> projected;  // and Aᵀ d

private:
    void fill_columns(ModelView<V>& own, const BlockPlace& place, const Kernels& kernels);
    void fill_identity(ModelView<V>& own, std::int64_t first);
    void fill_random(ModelView<V>& own, int c, const BlockPlace& place, const Kernels& kernels);

    std::int64_t features_;
    Rule rule_;
    ReplicaShape shape_;
    Model<V> model_;
};

// Sixteen seeds for the columns of a block: `part` tells classes and kinds of state apart.
void projection_seeds(std::uint32_t seed, std::int64_t pass, std::int64_t block, int part, std::uint32_t* out);

// The state a half of the Lasso is in once it has caught up with `owed`.
template <class V>
V caught_up(V half, double owed, double seen) {
    const double rest = static_cast<double>(half) - (owed - seen);
    return rest > 0.0 ? static_cast<V>(rest) : V{};
}

}  // namespace symsgd

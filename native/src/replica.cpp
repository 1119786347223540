#include "symsgd/replica.hpp"

#include <algorithm>

namespace symsgd {

namespace {

std::size_t unsigned_of(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

}  // namespace

ModelNeeds with_columns(ModelNeeds needs, const ReplicaShape& shape, std::int64_t features) {
    const int variables = needs.received || needs.halves ? 2 : 1;
    switch (shape.columns) {
        case Columns::none:
            break;
        case Columns::random:
            needs.tangents = shape.k;
            break;
        case Columns::identity:
            needs.tangents = static_cast<int>(features) * variables + 1;
            break;
        case Columns::movement:
            needs.tangents = 1;
            break;
    }
    if (shape.apart) needs.diagonal = needs.received ? 2 : needs.halves ? 1 : 0;
    return needs;
}

void projection_seeds(std::uint32_t seed, std::int64_t pass, std::int64_t block, int part, std::uint32_t* out) {
    std::uint64_t state = seed;
    const auto next = [&](std::uint64_t salt) {  // SplitMix64
        std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL) ^ salt;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    };
    for (const std::uint64_t salt :
         {static_cast<std::uint64_t>(pass), static_cast<std::uint64_t>(block), static_cast<std::uint64_t>(part)})
        state = next(salt);
    for (int i = 0; i < 16; ++i) out[i] = static_cast<std::uint32_t>(next(0) >> 32) | 1U;  // xorshift never leaves 0
}

template <class V>
Replica<V>::Replica(std::int64_t features, int classes, const Rule& rule, ModelNeeds base, ReplicaShape shape)
    : features_(features), rule_(rule), shape_(shape), model_(features, classes, with_columns(base, shape, features)) {
    const ModelView<V> own = model_.view();
    const auto numbers = unsigned_of(features) * static_cast<std::size_t>(own.stride);
    initial = Array<V>(numbers);
    if (base.received) initial_received = Array<V>(numbers);
    if (base.halves) initial_halves = Array<V>(2 * numbers);
    moved = Array<V>(unsigned_of(features) * static_cast<std::size_t>(classes));
    if (own.tangents > 0) corrections = Array<V>(moved.size());
    projected.resize(static_cast<std::size_t>(own.stride));
    initial_lanes.resize(static_cast<std::size_t>(classes));
    moved_intercepts.resize(static_cast<std::size_t>(classes));
    initial_tangent_intercepts.resize(static_cast<std::size_t>(own.stride));
}

template <class V>
ModelView<V> Replica<V>::view() {
    ModelView<V> own = model_.view();
    own.features = count();
    return own;
}

template <class V>
void Replica<V>::pull(ModelView<V> global, const BlockPlace& place, const Kernels& kernels) {
    ModelView<V> own = view();
    const std::int64_t n = own.features;
    const auto numbers = unsigned_of(n) * static_cast<std::size_t>(own.stride);
    fill_columns(own, place, kernels);  // first, because that may touch the weights
    for (int c = 0; c < own.classes; ++c) {
        const Lane& from = global.lanes[c];
        Lane lane;
        lane.intercept = from.intercept;
        lane.step_size = from.step_size;
        lane.owed = place.owed.empty() ? 0.0 : place.owed[static_cast<std::size_t>(c)];
        lane.drift = from.drift;
        lane.gathered = from.gathered;
        own.lanes[c] = initial_lanes[static_cast<std::size_t>(c)] = lane;
        const V scale = static_cast<V>(from.scale);
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t there = at(i) * global.stride + c, here = i * own.stride + c * own.group;
            if (own.halves != nullptr) {
                for (int half = 0; half < 2; ++half)
                    own.halves[2 * here + half] =
                        caught_up(global.halves[2 * there + half], from.owed, global.seen[there]);
                own.seen[here] = lane.owed;
                own.weights[here] = own.halves[2 * here] - own.halves[2 * here + 1];
                continue;
            }
            own.weights[here] = global.weights[there] * scale;
            if (own.received != nullptr) own.received[here] = global.received[there];
            if (own.gathered != nullptr) own.gathered[here] = global.gathered[there];
        }
    }
    model_.set_t(place.t);
    if (own.average != nullptr) std::fill_n(own.average, numbers, 0.0);
    std::copy_n(own.weights, numbers, initial.data());
    if (own.received != nullptr) std::copy_n(own.received, numbers, initial_received.data());
    if (own.halves != nullptr) std::copy_n(own.halves, 2 * numbers, initial_halves.data());
    if (own.tangents > 0)
        std::copy_n(own.tangent_intercepts, static_cast<std::size_t>(own.stride), initial_tangent_intercepts.data());
    if (own.tangent_sums != nullptr) std::fill_n(own.tangent_sums, own.stride, V{});
}

template <class V>
void Replica<V>::fill_columns(ModelView<V>& own, const BlockPlace& place, const Kernels& kernels) {
    for (int c = 0; c < own.classes; ++c) {
        const std::int64_t first = c * own.group + 1, diagonal = first + own.tangents;
        if (shape_.columns == Columns::random) fill_random(own, c, place, kernels);
        if (shape_.columns == Columns::identity) fill_identity(own, first);
        for (std::int64_t i = 0; i < own.features && own.diagonal > 0; ++i) {
            const std::int64_t here = i * own.stride + diagonal;
            if (own.halves != nullptr) {
                own.halves[2 * here] = own.halves[2 * here + 1] = 1;
            } else {
                own.weights[here] = own.received[here + 1] = 1;
                own.weights[here + 1] = own.received[here] = 0;
            }
        }
        for (std::int64_t i = 0; i < own.features && own.halves != nullptr; ++i) {
            for (std::int64_t k = i * own.stride + first; k < i * own.stride + diagonal + own.diagonal; ++k)
                own.weights[k] = own.halves[2 * k] - own.halves[2 * k + 1];
        }
    }
}

template <class V>
void Replica<V>::fill_random(ModelView<V>& own, int c, const BlockPlace& place, const Kernels& kernels) {
    const std::int64_t first = c * own.group + 1;
    const auto draw = [&](int part, std::int64_t rows, std::int64_t stride, V* out) {
        std::uint32_t seeds[16];
        projection_seeds(place.seed, place.pass, place.number, 4 * c + part, seeds);
        kernels.of_models<V>().draw_projection(seeds, rows, shape_.k, stride, shape_.k, out);
    };
    if (rule_.fit_intercept) draw(2, 1, own.stride, own.tangent_intercepts + first);
    if (own.halves == nullptr) {
        draw(0, own.features, own.stride, own.weights + first);
        if (own.received != nullptr) draw(1, own.features, own.stride, own.received + first);
        return;
    }
    std::vector<V> drawn(unsigned_of(own.features * shape_.k));
    for (int half = 0; half < 2; ++half) {
        draw(half, own.features, shape_.k, drawn.data());
        for (std::int64_t i = 0; i < own.features; ++i)
            for (int j = 0; j < shape_.k; ++j)
                own.halves[2 * (i * own.stride + first + j) + half] = drawn[unsigned_of(i * shape_.k + j)];
    }
}

// Columns: the weights (or positive halves) in turn, then what was received (or the negative halves), the intercept.
template <class V>
void Replica<V>::fill_identity(ModelView<V>& own, std::int64_t first) {
    const std::int64_t n = own.features, intercept = own.tangents - 1;
    for (std::int64_t j = 0; j < own.tangents; ++j) {
        own.tangent_intercepts[first + j] = j == intercept ? 1 : 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t here = i * own.stride + first + j;
            const V mine = j == i && j != intercept ? 1 : 0, second = j == n + i && j != intercept ? 1 : 0;
            if (own.halves != nullptr) {
                own.halves[2 * here] = mine;
                own.halves[2 * here + 1] = second;
            } else {
                own.weights[here] = mine;
                if (own.received != nullptr) own.received[here] = second;
            }
        }
    }
}

template <class V>
void Replica<V>::restart_along_movement(ModelView<V> global, double t) {
    ModelView<V> own = view();
    const auto numbers = unsigned_of(own.features * own.stride);
    std::copy_n(initial.data(), numbers, own.weights);
    if (own.received != nullptr) std::copy_n(initial_received.data(), numbers, own.received);
    if (own.halves != nullptr) std::copy_n(initial_halves.data(), 2 * numbers, own.halves);
    if (own.average != nullptr) std::fill_n(own.average, numbers, 0.0);
    if (own.tangent_sums != nullptr) std::fill_n(own.tangent_sums, own.stride, V{});
    for (int c = 0; c < own.classes; ++c) {
        own.lanes[c] = initial_lanes[static_cast<std::size_t>(c)];
        own.tangent_intercepts[c * own.group + 1] = static_cast<V>(moved_intercepts[static_cast<std::size_t>(c)]);
        const Lane& lane = global.lanes[c];
        for (std::int64_t i = 0; i < own.features; ++i) {
            const std::int64_t there = at(i) * global.stride + c, here = i * own.stride + c * own.group;
            own.weights[here + 1] = moved[unsigned_of(i * own.classes + c)];
            if (own.received != nullptr) own.received[here + 1] = global.received[there] - own.received[here];
            if (own.halves != nullptr) {
                own.seen[here] = own.lanes[c].owed;
                for (int half = 0; half < 2; ++half)
                    own.halves[2 * (here + 1) + half] =
                        caught_up(global.halves[2 * there + half], lane.owed, global.seen[there]) -
                        own.halves[2 * here + half];
            }
        }
    }
    model_.set_t(t);
}

template <class V>
void Replica<V>::measure_movement(ModelView<V> global) {
    const ModelView<V> own = view();
    for (int c = 0; c < own.classes; ++c) {
        const Lane& lane = global.lanes[c];
        const V scale = static_cast<V>(lane.scale);
        moved_intercepts[static_cast<std::size_t>(c)] =
            lane.intercept - initial_lanes[static_cast<std::size_t>(c)].intercept;
        for (std::int64_t i = 0; i < own.features; ++i) {
            const std::int64_t there = at(i) * global.stride + c, here = i * own.stride + c * own.group;
            V now = global.weights[there] * scale;
            if (own.halves != nullptr)
                now = caught_up(global.halves[2 * there], lane.owed, global.seen[there]) -
                      caught_up(global.halves[2 * there + 1], lane.owed, global.seen[there]);
            moved[unsigned_of(i * own.classes + c)] = now - initial[unsigned_of(here)];
        }
    }
}

template class Replica<float>;
template class Replica<double>;

}  // namespace symsgd

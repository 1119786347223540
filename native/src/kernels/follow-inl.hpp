// The chain of a round that is refined by sweeps, along a stretch of features (see strategies/curvature_merge.hpp).
//
//     s_p = scale_p × end_p − ended_p × w,   d_p = v_p + Q u_p,   v_p = keep_p × factor × (v_{p−1} − v°_{p−1}) + s_p −
//     Q s̃_p
//
// and block p should have started from begun_p × w + d_{p−1}.
#pragma once

#include "symsgd/learn.hpp"
#include "vector-inl.hpp"

namespace symsgd {
namespace {

// out[k × room + i] = Σ_j q[j × q_room + i] b[k × inner + j], for `places` features up to a multiple of 16.
template <class V>
void multiply_along(const V* q, std::int64_t q_room, int inner, std::int64_t places, const V* b, int columns, V* out,
                    std::int64_t room) {
    constexpr int lanes = 16, few = 4;
    using R = Vector<V, lanes>;
    for (std::int64_t i = 0; i < places; i += lanes) {
        for (int k = 0; k < columns; k += few) {
            const int number = smallest(few, columns - k);
            R total[few]{};
            for (int j = 0; j < inner; ++j) {
                const R own = load<V, lanes>(q + j * q_room + i);
#pragma GCC unroll 4
                for (int e = 0; e < few; ++e)
                    if (e < number) total[e] += own * b[(k + e) * inner + j];
            }
            for (int e = 0; e < number; ++e) store<V, lanes>(out + (k + e) * room + i, total[e]);
        }
    }
}

template <class V, int lanes>
SYMSGD_INLINE void follow_at(const Followed<V>& f, std::int64_t i) {
    using R = Vector<V, lanes>;
    const std::int64_t here = i - f.begin;
    const bool placed = here < f.places;
    const R w = load<V, lanes>(f.weights + i), factor = load<V, lanes>(f.factors + i);
    R v{}, d{};
    for (int p = 0; p < f.blocks; ++p) {
        const R moved = load<V, lanes>(f.ends[p] + i) * f.scales[p] - w * f.ended[p];
        if (p > 0) {
            const R start = w * f.begun[p] + d;
            const R old = f.again ? load<V, lanes>(f.missed[p] + i) : R{};
            if (!f.last) {
                store<V, lanes>(f.missed[p] + i, v);
                store<V, lanes>(f.ends[p] + i, start * f.inverse[p]);
            } else if (f.checked != nullptr && p + 1 == f.blocks) {
                store<V, lanes>(f.checked + i, start * f.checked_by);
            }
            v -= old;
        }
        v = v * (factor * f.keeps[p]) + moved;
        if (placed) v -= load<V, lanes>(f.own + p * f.room + here);
        d = v;
        if (placed && p >= f.chained_from) d += load<V, lanes>(f.chained + (p - f.chained_from) * f.room + here);
    }
    store<V, lanes>(f.next + i, w * f.all + d);
}

// Lines of replicas are other threads', and are written here, too: they are asked for some lines before.
template <class V>
void follow(const Followed<V>& f) {
    constexpr int lanes = smallest(16, vector_lanes<V>);
    constexpr std::int64_t line = 64 / sizeof(V), ahead = 2 * line;
    std::int64_t i = f.begin;
    for (; i + lanes <= f.end; i += lanes) {
        if ((i - f.begin) % line == 0)
            for (int p = 0; p < f.blocks; ++p) __builtin_prefetch(f.ends[p] + i + ahead, 1);
        follow_at<V, lanes>(f, i);
    }
    for (; i < f.end; ++i) follow_at<V, 1>(f, i);
}

}  // namespace
}  // namespace symsgd

// The sums over a replica's features that a merge needs (see symsgd/merge.hpp), and the random projections.
#pragma once

#include "penalties-inl.hpp"
#include "symsgd/learn.hpp"

namespace symsgd {
namespace {

// v_j = Σ_i A_ij d_i of every class. `initial` is features × stride like the weights, `moved` features × classes.
template <class V>
void project(const ModelView<V>& model, const V* initial, const V* moved, V* v) {
    constexpr int lanes = smallest(4, vector_lanes<V>);
    for (int c = 0; c < model.classes; ++c) {
        for (int at = c * model.group; at < (c + 1) * model.group; at += 4) {
            Vector<V, lanes> even[4 / lanes]{}, odd[4 / lanes]{};
            std::int64_t i = 0;
            for (; i + 2 <= model.features; i += 2) {
                for (int k = 0; k < 4 / lanes; ++k) {
                    even[k] +=
                        load<V, lanes>(initial + i * model.stride + at + k * lanes) * moved[i * model.classes + c];
                    odd[k] += load<V, lanes>(initial + (i + 1) * model.stride + at + k * lanes) *
                              moved[(i + 1) * model.classes + c];
                }
            }
            for (; i < model.features; ++i)
                for (int k = 0; k < 4 / lanes; ++k)
                    even[k] +=
                        load<V, lanes>(initial + i * model.stride + at + k * lanes) * moved[i * model.classes + c];
            for (int k = 0; k < 4 / lanes; ++k) store<V, lanes>(v + at + k * lanes, even[k] + odd[k]);
        }
    }
}

// out_i = scale × Σ_j ((M A)_ij − folded × A_ij) v_j of every class; v is 0 where a column does not count. Where
// nothing was touched the difference is 0 exactly.
template <class V>
void correct(const ModelView<V>& model, const V* initial, const V* v, V* out) {
    constexpr int lanes = smallest(4, vector_lanes<V>);
    for (int c = 0; c < model.classes; ++c) {
        const V scale = static_cast<V>(model.lanes[c].scale), folded = static_cast<V>(model.lanes[c].folded);
        for (std::int64_t i = 0; i < model.features; ++i) {
            Vector<V, lanes> sums[4 / lanes]{};
            for (int at = c * model.group; at < (c + 1) * model.group; at += 4) {
                for (int k = 0; k < 4 / lanes; ++k) {
                    const std::int64_t from = i * model.stride + at + k * lanes;
                    sums[k] += (load<V, lanes>(model.weights + from) - load<V, lanes>(initial + from) * folded) *
                               load<V, lanes>(v + at + k * lanes);
                }
            }
            for (int k = 1; k < 4 / lanes; ++k) sums[0] += sums[k];
            out[i * model.classes + c] = scale * sum<V, lanes>(sums[0]);
        }
    }
}

// Entries of A: ±√(3/k) with probability 1/6 each, else 0, in `rows` rows of `columns` numbers, `stride` apart. Sixteen
// generators (xorshift) draw them side by side, as many whatever the instruction set, so that all draw the same. Where
// one is drawn too many, it goes into the number behind the row's, in all rows but the last: a weight, which the caller
// writes afterwards.
template <class V>
void draw_projection(const std::uint32_t* seeds, std::int64_t rows, int columns, std::int64_t stride, int k, V* out) {
    constexpr int lanes = vector_lanes<V>, parts = 16 / lanes;
    constexpr std::uint32_t sixth = 715827883;  // 2³² / 6
    const V size = static_cast<V>(__builtin_sqrt(3.0 / k));
    Vector<std::uint32_t, lanes> state[parts];
    for (int part = 0; part < parts; ++part) state[part] = load<std::uint32_t, lanes>(seeds + part * lanes);
    const auto draw = [&](V* to) {
        for (int part = 0; part < parts; ++part) {
            auto& number = state[part];
            number ^= number << 13;
            number ^= number >> 17;
            number ^= number << 5;
            const auto sign = ((number < 2 * sixth) & 1) - ((number < sixth) & 2);
            store<V, lanes>(to + part * lanes, __builtin_convertvector(sign, Vector<V, lanes>) * size);
        }
    };
    for (std::int64_t i = 0; i < rows; ++i) {
        for (int at = 0; at < columns; at += 16) {
            V* to = out + i * stride + at;
            if (columns - at >= (i + 1 < rows ? 15 : 16)) {
                draw(to);
            } else {
                V entries[16];
                draw(entries);
                std::memcpy(to, entries, sizeof(V) * static_cast<std::size_t>(smallest(16, columns - at)));
            }
        }
    }
}

template <class V>
constexpr ModelKernels<V> model_kernels{&finish_pass<V>, &measure<V>, &project<V>, &correct<V>, &draw_projection<V>};

}  // namespace
}  // namespace symsgd

#include "symsgd/merge.hpp"

#include <algorithm>

namespace symsgd {

namespace {

// Multiplies the scale of a class of the model by `keep`, sweeping the weights where it would become too small.
template <class V>
void decay_model(ModelView<V>& model, int c, double keep) {
    Lane& lane = model.lanes[c];
    lane.scale *= keep;
    const double smallest_scale = model.average != nullptr ? 1e-3 : sizeof(V) == 4 ? 1e-6 : 1e-9;
    if (lane.scale >= smallest_scale) {
        lane.inverse = 1.0 / lane.scale;
        return;
    }
    for (std::int64_t i = 0; i < model.features; ++i) {
        V& weight = model.weights[i * model.stride + c];
        if (model.average != nullptr)
            model.average[i * model.stride + c] += lane.average_scales * static_cast<double>(weight);
        weight *= static_cast<V>(lane.scale);
    }
    lane.average_scales = 0.0;
    lane.scale = lane.inverse = 1.0;
}

double kept_by(const Lane& lane) {
    return lane.folded * lane.scale;
}

double kept_sum(const Lane& lane) {
    return lane.folded_sum + lane.folded * lane.average_scales;
}

// One variable of the state of one feature and class: its weight, what L1 was paid, or a half.
template <class V>
struct Variable {
    const V* end = nullptr;    // as the block left it, then its tangents
    const V* start = nullptr;  // as it began, then its columns of A
    std::int64_t apart = 0;    // numbers between one of these and the next
    V scale{};
    V moved{};  // how far the model has moved

    V ended(int k) const { return end[k * apart] * scale; }
    V started(int k) const { return start[k * apart]; }
};

// The merge of one class, for every kind of state.
template <class V>
struct ClassMerge {
    Replica<V>& replica;
    ModelView<V> own;
    ModelView<V> global;
    int c;
    double averaged;
    std::vector<V> v;  // Aᵀ d

    int columns() const { return own.tangents; }
    int diagonal() const { return own.tangents + 1; }
    const Lane& lane() const { return own.lanes[c]; }
    bool along() const { return replica.shape().columns == Columns::movement; }

    // The variables of local feature i.
    int variables(std::int64_t i, Variable<V>* out) const {
        const std::int64_t here = i * own.stride + c * own.group, there = replica.at(i) * global.stride + c;
        const Lane& now = global.lanes[c];
        if (own.halves != nullptr) {
            for (int half = 0; half < 2; ++half) {
                const V* start = replica.initial_halves.data() + 2 * here + half;
                out[half] = {own.halves + 2 * here + half, start, 2, V{1},
                             caught_up(global.halves[2 * there + half], now.owed, global.seen[there]) - *start};
            }
            return 2;
        }
        const V* start = replica.initial.data() + here;
        out[0] = {own.weights + here, start, 1, static_cast<V>(lane().scale),
                  global.weights[there] * static_cast<V>(now.scale) - *start};
        if (own.received == nullptr) return 1;
        start = replica.initial_received.data() + here;
        out[1] = {own.received + here, start, 1, V{1}, global.received[there] - *start};
        return 2;
    }

    void project() {
        v.assign(static_cast<std::size_t>(columns()) + 1, V{});
        if (along()) return;
        for (int j = 1; j <= columns(); ++j) {
            const auto at = static_cast<std::size_t>(c * own.group + j);
            V sum = replica.initial_tangent_intercepts[at] * static_cast<V>(moved_intercept());
            for (std::int64_t i = 0; i < own.features; ++i) {
                Variable<V> variable[2];
                const int count = variables(i, variable);
                for (int n = 0; n < count; ++n) sum += variable[n].started(j) * variable[n].moved;
            }
            v[static_cast<std::size_t>(j)] = sum;
        }
    }

    double moved_intercept() const { return replica.moved_intercepts[static_cast<std::size_t>(c)]; }

    // D applied to what `value` gives for each variable.
    template <class Value>
    V alone(const Variable<V>* variable, int n, Value&& value) const {
        if (own.diagonal == 0) return static_cast<V>(kept_by(lane())) * value(variable[0]);
        if (own.diagonal == 1) return variable[n].ended(diagonal()) * value(variable[n]);
        return variable[n].ended(diagonal()) * value(variable[0]) +
               variable[n].ended(diagonal() + 1) * value(variable[1]);
    }

    V merged(const Variable<V>* variable, int n) const {
        if (along()) return variable[n].ended(0) + variable[n].ended(1);
        V sum = variable[n].ended(0) + alone(variable, n, [](const Variable<V>& x) { return x.moved; });
        for (int j = 1; j <= columns(); ++j)
            sum += (variable[n].ended(j) - alone(variable, n, [&](const Variable<V>& x) { return x.started(j); })) *
                   v[static_cast<std::size_t>(j)];
        return sum;
    }

    // The sum of the block's iterates of the weight at local feature i.
    double merged_sum(std::int64_t i, const Variable<V>* variable) const {
        const std::int64_t here = i * own.stride + c * own.group;
        const auto sum = [&](int k) {
            return own.average[here + k] + lane().average_scales * static_cast<double>(own.weights[here + k]);
        };
        if (along()) return sum(0) + sum(1);
        const auto alone_sum = [&](auto&& value) {
            if (own.diagonal == 0) return kept_sum(lane()) * static_cast<double>(value(variable[0]));
            return sum(diagonal()) * static_cast<double>(value(variable[0])) +
                   sum(diagonal() + 1) * static_cast<double>(value(variable[1]));
        };
        double total = sum(0) + alone_sum([](const Variable<V>& x) { return x.moved; });
        for (int j = 1; j <= columns(); ++j)
            total += (sum(j) - alone_sum([&](const Variable<V>& x) { return x.started(j); })) *
                     static_cast<double>(v[static_cast<std::size_t>(j)]);
        return total;
    }

    void merge_intercept() {
        Lane& to = global.lanes[c];
        const std::int64_t first = c * own.group;
        double end = lane().intercept, sum = lane().intercept_sum;
        if (along()) {
            end += static_cast<double>(own.tangent_intercepts[first + 1]);
            if (own.tangent_sums != nullptr) sum += static_cast<double>(own.tangent_sums[first + 1]);
        } else {
            end += moved_intercept();
            sum += averaged * moved_intercept();
            for (int j = 1; j <= columns(); ++j) {
                const double start = replica.initial_tangent_intercepts[static_cast<std::size_t>(first + j)];
                const double along_column = v[static_cast<std::size_t>(j)];
                end += (static_cast<double>(own.tangent_intercepts[first + j]) - start) * along_column;
                if (own.tangent_sums != nullptr)
                    sum += (static_cast<double>(own.tangent_sums[first + j]) - averaged * start) * along_column;
            }
        }
        to.intercept = end;
        to.intercept_sum += sum;
    }

    void run() {
        project();
        Lane& to = global.lanes[c];
        std::vector<V> next(static_cast<std::size_t>(2 * own.features));
        std::vector<double> sums(own.average != nullptr ? static_cast<std::size_t>(own.features) : 0);
        for (std::int64_t i = 0; i < own.features; ++i) {
            Variable<V> variable[2];
            const int count = variables(i, variable);
            for (int n = 0; n < count; ++n) next[static_cast<std::size_t>(2 * i + n)] = merged(variable, n);
            if (own.average != nullptr) {
                const std::int64_t there = replica.at(i) * global.stride + c;
                sums[static_cast<std::size_t>(i)] =
                    merged_sum(i, variable) + to.average_scales * static_cast<double>(global.weights[there]);
                global.weights[there] = 0;  // what a sweep of decay_model would add to its mean is in `sums`
            }
        }
        to.average_scales += to.scale * kept_sum(lane());
        decay_model(global, c, kept_by(lane()));
        to.owed = lane().owed;
        for (std::int64_t i = 0; i < own.features; ++i) write(i, next, sums);
        merge_intercept();
    }

    void write(std::int64_t i, const std::vector<V>& next, const std::vector<double>& sums) {
        Lane& to = global.lanes[c];
        const std::int64_t there = replica.at(i) * global.stride + c;
        const V first = next[static_cast<std::size_t>(2 * i)], second = next[static_cast<std::size_t>(2 * i + 1)];
        if (own.halves != nullptr) {
            // a half below zero is one that the linearised merge has taken too far
            global.halves[2 * there] = std::max(first, V{});
            global.halves[2 * there + 1] = std::max(second, V{});
            global.seen[there] = to.owed;
            global.weights[there] = global.halves[2 * there] - global.halves[2 * there + 1];
            return;
        }
        global.weights[there] = first * static_cast<V>(to.inverse);
        if (own.received != nullptr) global.received[there] = second;
        if (own.average != nullptr)
            global.average[there] +=
                sums[static_cast<std::size_t>(i)] - to.average_scales * static_cast<double>(global.weights[there]);
    }
};

// Whether anybody else has moved the model since the replica was taken.
template <class V>
bool has_moved(const Replica<V>& replica, const ModelView<V>& own) {
    const auto numbers = static_cast<std::size_t>(own.features * own.classes);
    return std::any_of(replica.moved.data(), replica.moved.data() + numbers, [](V d) { return d != 0; }) ||
           std::any_of(replica.moved_intercepts.begin(), replica.moved_intercepts.end(),
                       [](double d) { return d != 0.0; });
}

// The same for weights alone, by the kernels.
template <class V>
void merge_weights(Replica<V>& replica, ModelView<V> own, ModelView<V> global, const Kernels& kernels) {
    std::vector<V>& v = replica.projected;
    const Array<V>& corrections = replica.corrections;
    const bool corrects = own.tangents > 0 && has_moved(replica, own);
    if (corrects) {
        kernels.of_models<V>().project(own, replica.initial.data(), replica.moved.data(), v.data());
        for (int c = 0; c < own.classes; ++c) {
            const int first = c * own.group;
            v[static_cast<std::size_t>(first)] = 0;
            const double moved = replica.moved_intercepts[static_cast<std::size_t>(c)];
            Lane& lane = own.lanes[c];
            lane.intercept += moved;
            for (int j = first + 1; j <= first + own.tangents; ++j) {
                const auto at = static_cast<std::size_t>(j);
                const V start = replica.initial_tangent_intercepts[at];
                v[at] += start * static_cast<V>(moved);
                lane.intercept += static_cast<double>((own.tangent_intercepts[j] - start) * v[at]);
            }
        }
        kernels.of_models<V>().correct(own, replica.initial.data(), v.data(), replica.corrections.data());
    } else {
        for (int c = 0; c < own.classes; ++c)
            own.lanes[c].intercept += replica.moved_intercepts[static_cast<std::size_t>(c)];
    }
    for (int c = 0; c < own.classes; ++c) {
        const Lane& lane = own.lanes[c];
        const V scale = static_cast<V>(lane.scale), keep = static_cast<V>(kept_by(lane));
        decay_model(global, c, kept_by(lane));
        const V inverse = static_cast<V>(global.lanes[c].inverse);
        for (std::int64_t i = 0; i < own.features; ++i) {
            const auto at = static_cast<std::size_t>(i * own.classes + c);
            V weight = own.weights[i * own.stride + c * own.group] * scale + keep * replica.moved[at];
            if (corrects) weight += corrections[at];
            global.weights[replica.at(i) * global.stride + c] = weight * inverse;
        }
        global.lanes[c].intercept = lane.intercept;
    }
}

}  // namespace

template <class V>
void merge_chain(Replica<V>& replica, ModelView<V> global, const Kernels& kernels, double averaged) {
    const ModelView<V> own = replica.view();
    if (own.received == nullptr && own.halves == nullptr && own.average == nullptr &&
        replica.shape().columns != Columns::movement)
        return merge_weights(replica, own, global, kernels);
    for (int c = 0; c < own.classes; ++c) ClassMerge<V>{replica, own, global, c, averaged, {}}.run();
}

template <class V>
void keep_combiner(Replica<V>& replica, KeptCombiner<V>* kept) {
    const ModelView<V> own = replica.view();
    for (int c = 0; c < own.classes; ++c) {
        const V scale = static_cast<V>(own.lanes[c].scale);
        kept[c].clear();
        for (std::int64_t i = 0; i < own.features; ++i)
            for (int j = 1; j <= own.tangents; ++j)
                kept[c].push_back(own.weights[i * own.stride + c * own.group + j] * scale);
        for (int j = 1; j <= own.tangents; ++j) kept[c].push_back(own.tangent_intercepts[c * own.group + j]);
    }
}

template <class V>
void merge_kept(Replica<V>& replica, ModelView<V> global, const KeptCombiner<V>* kept) {
    const ModelView<V> own = replica.view();
    const std::int64_t n = own.features;
    for (int c = 0; c < own.classes; ++c) {
        const Lane& lane = own.lanes[c];
        const double moved_intercept = replica.moved_intercepts[static_cast<std::size_t>(c)];
        const auto times_movement = [&](std::int64_t row) {
            const V* m = kept[c].data() + row * (n + 1);
            double sum = static_cast<double>(m[n]) * moved_intercept;
            for (std::int64_t j = 0; j < n; ++j)
                sum += static_cast<double>(m[j]) *
                       static_cast<double>(replica.moved[static_cast<std::size_t>(j * own.classes + c)]);
            return sum;
        };
        decay_model(global, c, kept_by(lane));
        for (std::int64_t i = 0; i < n; ++i) {
            const double end = static_cast<double>(own.weights[i * own.stride + c * own.group]) * lane.scale;
            global.weights[i * global.stride + c] = static_cast<V>((end + times_movement(i)) * global.lanes[c].inverse);
        }
        global.lanes[c].intercept = lane.intercept + times_movement(n);
    }
}

template <class V>
void merge_mean(const std::vector<Replica<V>*>& replicas, ModelView<V> global) {
    const double blocks = static_cast<double>(replicas.size());
    for (int c = 0; c < global.classes; ++c) {
        Lane& to = global.lanes[c];
        double keep = 0.0, intercept = 0.0, owed = 0.0, sum = 0.0;
        for (Replica<V>* replica : replicas) {
            const Lane& lane = replica->view().lanes[c];
            keep += kept_by(lane) / blocks;
            intercept += lane.intercept / blocks;
            owed += lane.owed / blocks;
            to.intercept_sum += lane.intercept_sum;
            sum += kept_sum(lane);
        }
        to.average_scales += to.scale * sum;
        decay_model(global, c, keep);
        to.intercept = intercept;
        to.owed = owed;
        bool first = true;
        for (Replica<V>* replica : replicas) {
            const ModelView<V> own = replica->view();
            const Lane& lane = own.lanes[c];
            for (std::int64_t i = 0; i < own.features; ++i) {
                const std::int64_t here = i * own.stride + c * own.group, there = replica->at(i) * global.stride + c;
                if (own.halves != nullptr) {  // replicas of everything
                    for (int half = 0; half < 2; ++half) {
                        V& mean = global.halves[2 * there + half];
                        mean = (first ? V{} : mean) + own.halves[2 * here + half] / static_cast<V>(blocks);
                    }
                    global.seen[there] = to.owed;
                    global.weights[there] = global.halves[2 * there] - global.halves[2 * there + 1];
                    continue;
                }
                const double start = replica->initial[static_cast<std::size_t>(here)];
                const double end = static_cast<double>(own.weights[here]) * lane.scale;
                V& weight = global.weights[there];
                const V before = weight;
                weight += static_cast<V>((end - kept_by(lane) * start) / blocks * to.inverse);
                if (own.average != nullptr)
                    global.average[there] +=
                        own.average[here] + lane.average_scales * static_cast<double>(own.weights[here]) -
                        kept_sum(lane) * start - to.average_scales * (static_cast<double>(weight) - before);
                if (own.received != nullptr)
                    global.received[there] +=
                        (own.received[here] - replica->initial_received[static_cast<std::size_t>(here)]) /
                        static_cast<V>(blocks);
            }
            first = false;
        }
    }
}

template <class V>
void merge_adagrad(const std::vector<Replica<V>*>& replicas, ModelView<V> global) {
    for (int c = 0; c < global.classes; ++c) {
        Lane& to = global.lanes[c];
        double total = 0.0, intercept = 0.0, gathered = 0.0, owed = 0.0;
        for (Replica<V>* replica : replicas) {
            const Lane& lane = replica->view().lanes[c];
            total += lane.gathered;
            intercept += lane.gathered * lane.intercept;
            gathered += lane.gathered * lane.gathered;
            owed += lane.owed / static_cast<double>(replicas.size());
            to.intercept_sum += lane.intercept_sum;
        }
        if (total > 0.0) {
            to.intercept = intercept / total;
            to.gathered = gathered / total;
        }
        to.owed = owed;
        // every weight is written anew, so the scale is too
        for (std::int64_t i = 0; i < global.features; ++i) {
            const std::int64_t at = i * global.stride + c;
            double weights = 0.0, mean = 0.0, squares = 0.0, received = 0.0, sums = 0.0, plain = 0.0;
            for (Replica<V>* replica : replicas) {
                const ModelView<V> own = replica->view();
                const double weight = static_cast<double>(own.weights[at]) * own.lanes[c].scale;
                const double g = own.gathered[at];
                weights += g;
                mean += g * weight;
                squares += g * g;
                plain += weight / static_cast<double>(replicas.size());
                if (own.received != nullptr) received += g * static_cast<double>(own.received[at]);
                if (own.average != nullptr)
                    sums += own.average[at] + own.lanes[c].average_scales * static_cast<double>(own.weights[at]);
            }
            if (global.average != nullptr)
                global.average[at] += to.average_scales * static_cast<double>(global.weights[at]) + sums;
            global.weights[at] = static_cast<V>(weights > 0.0 ? mean / weights : plain);
            if (weights > 0.0) {
                global.gathered[at] = static_cast<V>(squares / weights);
                if (global.received != nullptr) global.received[at] = static_cast<V>(received / weights);
            }
        }
        to.scale = to.inverse = 1.0;
        to.average_scales = 0.0;
    }
}

template void merge_chain(Replica<float>&, ModelView<float>, const Kernels&, double);
template void merge_chain(Replica<double>&, ModelView<double>, const Kernels&, double);
template void keep_combiner(Replica<float>&, KeptCombiner<float>*);
template void keep_combiner(Replica<double>&, KeptCombiner<double>*);
template void merge_kept(Replica<float>&, ModelView<float>, const KeptCombiner<float>*);
template void merge_kept(Replica<double>&, ModelView<double>, const KeptCombiner<double>*);
template void merge_mean(const std::vector<Replica<float>*>&, ModelView<float>);
template void merge_mean(const std::vector<Replica<double>*>&, ModelView<double>);
template void merge_adagrad(const std::vector<Replica<float>*>&, ModelView<float>);
template void merge_adagrad(const std::vector<Replica<double>*>&, ModelView<double>);

}  // namespace symsgd

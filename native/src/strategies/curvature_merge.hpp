// The merge of a round by the curvature.
//
// A block's derivative is taken to be that of any block, M_p ≈ keep_p exp(−a H) with a = Σ step sizes, H = E[h x̃ x̃ᵀ]
// (spectrum.hpp), keep_p = Π(1 − step × l2). The chain of a round, d_p = (S_p − w_g) + M_p (d_{p−1} − d°_{p−1}), where
// block p started from w_g + d°_{p−1} and ended at S_p, is carried in the coordinates of H as pairs, d = Q u + v:
//
//     u_p = Qᵀ s_p + keep_p e^{−aΛ} (u_{p−1} − u°_{p−1})
//     v_p = (s_p − Q Qᵀ s_p) + keep_p e^{−ac} ∘ (v_{p−1} − v°_{p−1}),     s_p = S_p − w_g
//
// In words: flat directions add up, sharp ones keep the last word. The first time blocks start from w_g itself, d° = 0.
#pragma once

#include "curvature_sample.hpp"

namespace symsgd {

template <class Rows>
class CurvatureMerge {
    using V = typename Rows::Value;

public:
    static constexpr std::int64_t slices = 64;  // of the features: as many whatever the threads

    // For `width` blocks at most. `rank` 0: as many directions as pay.
    void seat(Workspace<Rows>& work, std::int64_t width, int rank) {
        const ModelView<V> model = work.model.view();
        stride_ = model.stride;
        classes_ = model.classes;
        rank_ = rank;
        width_ = width;
        features_ = model.features;
        const auto classes = static_cast<std::size_t>(classes_);
        replicas.clear();
        for (std::int64_t p = 0; p < width; ++p)
            replicas.push_back(std::make_unique<Model<V>>(model.features, model.classes, ModelNeeds{}));
        starts_.clear();
        factors_ = Array<V>(static_cast<std::size_t>(model.features) * classes);
        factor_steps_.assign(classes, -1.0);
        stale_ = true;
        spectra_ = std::vector<Spectrum<V>>(classes);
        sample_ = {};
        for (auto* room : {&projected_, &products_, &old_u_}) room->assign(classes, {});
        const Rule& rule = work.spec.rule;
        root_ = 1.0 / std::sqrt(rule.fit_intercept ? rule.intercept_decay : 1.0);
        chosen_ = false;
    }

    void estimate(Crew::Member& member, Workspace<Rows>& work, const WrittenOrder& order, std::int64_t turn, double t) {
        if (!chosen_) member.alone([&] { choose(work, order); });
        for (int c = 0; c < classes_; ++c) {
            const Schedule& schedule = work.spec.rule.schedule;
            const double step = sum_of_steps(schedule, work.model.lanes()[static_cast<std::size_t>(c)].step_size, t, 1);
            sampler_.take(member, work, order, turn, c, step, sample_);
            spectrum(c).estimate(member, sample_, sampler_.features(), work.kernels.template of_curvature<V>(),
                                 work.spec.seed + static_cast<std::uint64_t>(c));
        }
        member.alone([&] { stale_ = true; });
    }

    // A round of so many blocks; of class c, `keep` by block and `steps`, the sum of a block's. `refined`: by sweeps.
    void begin_round(int count, std::vector<double> keep, std::vector<double> steps, bool refined) {
        count_ = count;
        refined_ = refined;
        keep_ = std::move(keep);
        steps_ = std::move(steps);
        for (std::size_t c = 0; c < steps_.size(); ++c)
            if (!(std::abs(steps_[c] - factor_steps_[c]) <= 0.02 * factor_steps_[c])) stale_ = true;
        if (stale_) factor_steps_ = steps_;
    }

    // Qᵀ s of a block that has ended. The thread that has trained it has it in its cache.
    void project(Workspace<Rows>& work, std::int64_t p) {
        const std::vector<std::int64_t>& features = sampler_.features();
        const ModelView<V> global = work.model.view(), own = replicas[static_cast<std::size_t>(p)]->view();
        std::vector<V> moved(features.size());
        for (int c = 0; c < classes_; ++c) {
            const V scale = static_cast<V>(own.lanes[c].scale), before = static_cast<V>(global.lanes[c].scale);
            for (std::size_t k = 0; k < features.size(); ++k) {
                const std::int64_t at = features[k] * stride_ + c;
                moved[k] = own.weights[at] * scale - global.weights[at] * before;
            }
            const int n = spectrum(c).columns();
            V* u = projected_[static_cast<std::size_t>(c)].data() + p * n;
            const V* last = spectrum(c).q(static_cast<std::int64_t>(features.size()));
            for (int j = 0; j < n; ++j) u[j] = last[j] * static_cast<V>(intercept_moved(work, p, c));
            work.kernels.template of_curvature<V>().add_products(
                spectrum(c).q(0), static_cast<std::int64_t>(features.size()), n, moved.data(), 1, u);
        }
    }

    // The chain of u, which is short. `again`: the blocks started from where `follow` has put them.
    void chain(bool again) {
        for (int c = 0; c < classes_; ++c) {
            const int n = spectrum(c).columns();
            const std::vector<V>& own = projected_[static_cast<std::size_t>(c)];
            std::vector<V>& products = products_[static_cast<std::size_t>(c)];
            std::vector<V>& old = old_u_[static_cast<std::size_t>(c)];
            products.assign(static_cast<std::size_t>(n * columns()), V{});
            if (!again) old.assign(static_cast<std::size_t>(n * count_), V{});
            for (int j = 0; j < n; ++j) {
                const bool counts = j < spectrum(c).rank();
                const double sharp =
                    counts ? std::exp(-steps_[static_cast<std::size_t>(c)] * spectrum(c).lambda(j)) : 1.0;
                double u = 0.0;
                const auto product = [&](int column) -> V& {
                    return products[static_cast<std::size_t>(column * n + j)];
                };
                for (int p = 0; p < count_; ++p) {
                    V& started = old[static_cast<std::size_t>(p * n + j)];
                    const double before = u - static_cast<double>(started);
                    if (refined_) product(2 * count_ + p) = started;
                    started = static_cast<V>(u);
                    product(p) = own[static_cast<std::size_t>(p * n + j)];
                    u = static_cast<double>(product(p)) + keep(p, c) * sharp * before;
                    if (refined_) product(count_ + p) = static_cast<V>(u);
                }
                if (!refined_) product(count_) = static_cast<V>(u);
            }
        }
    }

    // A slice of the merged model in place of the old one, which goes to `before`. The new one's scale is 1, the old
    // one's was what the lanes say until the round has ended.
    void finish(Workspace<Rows>& work, std::int64_t slice, V* before) {
        const auto [begin, end] = bounds(slice);
        if (stale_) renew_factors(begin, end);
        for (int c = 0; c < classes_; ++c) {
            const std::vector<V> moved = merged_movement(work, c, begin, end);
            V* weights = work.model.view().weights + c;
            const V scale = static_cast<V>(work.model.lanes()[static_cast<std::size_t>(c)].scale);
            if (stride_ == 1) {
                V* __restrict to = weights + begin;
                V* __restrict kept = before + begin;
                const V* __restrict by = moved.data();
                for (std::int64_t i = 0; i < end - begin; ++i) {
                    kept[i] = to[i];
                    to[i] = to[i] * scale + by[i];
                }
            } else {
                for (std::int64_t i = begin; i < end; ++i) {
                    V& weight = weights[i * stride_];
                    before[i * stride_ + c] = weight;
                    weight = weight * scale + moved[static_cast<std::size_t>(i - begin)];
                }
            }
        }
    }

    // A slice for refinement: every replica is put where the chain says that its block should have started, and `next`
    // gets the end of the chain.
    void follow(Workspace<Rows>& work, std::int64_t slice, bool again, V* next) {
        const auto [begin, end] = bounds(slice);
        if (stale_) renew_factors(begin, end);
        for (int c = 0; c < classes_; ++c) follow_class(work, c, begin, end, again, next);
    }

    // The intercepts by the same chain; `starts` (class by class, of each block) are where blocks started, and become
    // where they should have. Null in a round without sweeps.
    double merged_intercept(Workspace<Rows>& work, int c, double* starts) {
        const double begun = work.model.lanes()[static_cast<std::size_t>(c)].intercept;
        if (!work.spec.rule.fit_intercept) return begun;
        const auto place = static_cast<std::int64_t>(sampler_.features().size());
        const std::vector<V> products = multiply_places(work, c, place, place + 1);
        const auto product = [&](int column) {
            return static_cast<double>(products[static_cast<std::size_t>(column)]);
        };
        const double factor_of_it = factor(c, features_);
        double v = 0.0, d = 0.0;
        for (int p = 0; p < count_; ++p) {
            double before = v;
            if (starts != nullptr) {
                before -= (starts[p] - begun) * root_ - product(2 * count_ + p);
                starts[p] = begun + d / root_;
            }
            v = before * factor_of_it + intercept_moved(work, p, c) - product(p);
            d = v + product(starts != nullptr ? count_ + p : count_);
        }
        return begun + d / root_;
    }

    void make_starts() {
        while (static_cast<int>(starts_.size()) < count_)
            starts_.emplace_back(static_cast<std::size_t>(features_) * static_cast<std::size_t>(stride_));
    }
    void factors_renewed() { stale_ = false; }
    int rank() const { return chosen_ ? spectra_.front().rank() : 0; }
    int stride() const { return stride_; }

    std::vector<std::unique_ptr<Model<V>>> replicas;

private:
    Spectrum<V>& spectrum(int c) { return spectra_[static_cast<std::size_t>(c)]; }
    double keep(int p, int c) const { return keep_[static_cast<std::size_t>(c * count_ + p)]; }
    std::pair<std::int64_t, std::int64_t> bounds(std::int64_t slice) const {
        return {slice * features_ / slices, (slice + 1) * features_ / slices};
    }

    // what Q is multiplied by: u of each block alone, then of the chain (its end if that is all that is wanted), then
    // of where blocks started
    int columns() const { return refined_ ? 3 * count_ : count_ + 1; }

    void choose(Workspace<Rows>& work, const WrittenOrder& order) {
        sampler_.choose_features(work.rows, order);
        const auto places = static_cast<std::int64_t>(sampler_.features().size());
        for (std::size_t c = 0; c < spectra_.size(); ++c) {
            spectra_[c].reset(places, rank_ > 0 ? rank_ : places <= 1024 ? 64 : 32);
            projected_[c].resize(static_cast<std::size_t>(width_ * spectra_[c].columns()));
        }
        chosen_ = true;
    }

    double intercept_moved(const Workspace<Rows>& work, std::int64_t p, int c) const {
        const auto lane = static_cast<std::size_t>(c);
        return (replicas[static_cast<std::size_t>(p)]->lanes()[lane].intercept - work.model.lanes()[lane].intercept) *
               root_;
    }

    double factor(int c, std::int64_t feature) const {
        const double rest = spectra_[static_cast<std::size_t>(c)].rest(feature);
        return rest > 0.0 ? std::exp(-factor_steps_[static_cast<std::size_t>(c)] * rest) : 1.0;
    }

    void renew_factors(std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            for (int c = 0; c < classes_; ++c)
                factors_[static_cast<std::size_t>(i * classes_ + c)] = static_cast<V>(factor(c, i));
    }

    std::pair<std::int64_t, std::int64_t> places_between(std::int64_t begin, std::int64_t end) const {
        const std::vector<std::int64_t>& features = sampler_.features();
        const auto first = std::lower_bound(features.begin(), features.end(), begin);
        return {first - features.begin(), std::lower_bound(first, features.end(), end) - features.begin()};
    }

    std::vector<V> multiply_places(Workspace<Rows>& work, int c, std::int64_t first, std::int64_t last) {
        std::vector<V> out(static_cast<std::size_t>((last - first) * columns()));
        work.kernels.template of_curvature<V>().multiply_rows(spectrum(c).q(first), last - first, spectrum(c).columns(),
                                                              products_[static_cast<std::size_t>(c)].data(), columns(),
                                                              out.data());
        return out;
    }

    // d of class c for features [begin, end), all blocks having started from the model.
    std::vector<V> merged_movement(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end) {
        const V* weights = work.model.view().weights;
        const V scale = static_cast<V>(work.model.lanes()[static_cast<std::size_t>(c)].scale);
        std::vector<V> v(static_cast<std::size_t>(end - begin), V{}), scales, keeps;
        std::vector<const V*> ends;
        for (int p = 0; p < count_; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            ends.push_back(own.weights);
            scales.push_back(static_cast<V>(own.lanes[c].scale));
            keeps.push_back(static_cast<V>(keep(p, c)));
        }
        const V* factors = factors_.data() + c;
        if (stride_ == 1) {
            work.kernels.template of_curvature<V>().chain_weights(ends.data(), scales.data(), keeps.data(), count_,
                                                                  weights, scale, factors, begin, end, v.data());
        } else {
            for (std::size_t p = 0; p < ends.size(); ++p) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t at = i * stride_ + c;
                    V& sum = v[static_cast<std::size_t>(i - begin)];
                    sum = sum * (factors[i * classes_] * keeps[p]) + (ends[p][at] * scales[p] - weights[at] * scale);
                }
            }
        }
        // directions of Q are followed by u, not by the diagonal
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        for (std::int64_t k = first; k < last; ++k) {
            const std::int64_t i = sampler_.features()[static_cast<std::size_t>(k)];
            const V* product = products.data() + (k - first) * columns();
            V followed{};
            for (int p = 0; p < count_; ++p)
                followed = followed * (factors[i * classes_] * keeps[static_cast<std::size_t>(p)]) + product[p];
            v[static_cast<std::size_t>(i - begin)] += product[count_] - followed;
        }
        return v;
    }

    void follow_class(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, bool again, V* next) {
        const V* weights = work.model.view().weights;
        const V begun = static_cast<V>(work.model.lanes()[static_cast<std::size_t>(c)].scale);
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        const auto number = static_cast<std::size_t>(end - begin);
        std::vector<V> q(3 * number, V{}), v(number, V{}), d(number, V{});
        for (int p = 0; p < count_; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            const V scale = static_cast<V>(own.lanes[c].scale), kept = static_cast<V>(keep(p, c));
            V* start = starts_[static_cast<std::size_t>(p)].data();
            for (std::int64_t k = first; k < last; ++k) {
                const auto i = static_cast<std::size_t>(sampler_.features()[static_cast<std::size_t>(k)] - begin);
                for (int part = 0; part < 3; ++part)
                    q[static_cast<std::size_t>(part) * number + i] =
                        products[static_cast<std::size_t>((k - first) * columns() + part * count_ + p)];
            }
            for (std::int64_t i = begin; i < end; ++i) {
                const auto here = static_cast<std::size_t>(i - begin);
                const std::int64_t at = i * stride_ + c;
                const V from = weights[at] * begun;
                const V moved = own.weights[at] * scale - from;
                const V old = p > 0 && again ? start[at] - from - q[2 * number + here] : V{};
                const V started = from + d[here];
                v[here] =
                    (v[here] - old) * (factors_[static_cast<std::size_t>(i * classes_ + c)] * kept) + (moved - q[here]);
                d[here] = v[here] + q[number + here];
                if (p > 0) start[at] = own.weights[at] = started;
            }
        }
        for (std::int64_t i = begin; i < end; ++i)
            next[i * stride_ + c] = weights[i * stride_ + c] * begun + d[static_cast<std::size_t>(i - begin)];
    }

    std::int64_t features_ = 0, width_ = 1;
    int classes_ = 1, stride_ = 1, rank_ = 0;
    double root_ = 1.0;  // 1 / √κ: the intercept counts as a weight of a feature of value √κ
    bool chosen_ = false;
    CurvatureSampler<Rows> sampler_;
    CurvatureSample<V> sample_;
    std::vector<Spectrum<V>> spectra_;  // by class

    int count_ = 0;  // blocks of the round
    bool refined_ = false;
    std::vector<double> keep_, steps_;
    Array<V> factors_;  // e^{−ac}, features × classes, for these steps:
    std::vector<double> factor_steps_;
    bool stale_ = true;
    std::vector<std::vector<V>> projected_, products_, old_u_;  // by class, numbers of a column together
    std::vector<Array<V>> starts_;                              // by block: where it started, in a round with sweeps
};

}  // namespace symsgd

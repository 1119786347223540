// The merge of a round by the curvature.
//
// A block's derivative is taken to be that of any block, M_p ≈ keep_p exp(−a H) with a = Σ step sizes, H = E[h x̃ x̃ᵀ]
// (spectrum.hpp), keep_p = Π(1 − step × l2). With K_p = Π_{q<p} keep_q, what the penalty alone makes of the round's
// model w_g before block p, block p starts from K_p w_g + d°_{p−1} and ends at S_p. The chain of a round,
// d_p = (S_p − K_{p+1} w_g) + M_p (d_{p−1} − d°_{p−1}), is carried in the coordinates of H as pairs, d = Q u + v:
//
//     u_p = Qᵀ s_p + keep_p e^{−aΛ} (u_{p−1} − u°_{p−1})
//     v_p = (s_p − Q Qᵀ s_p) + keep_p e^{−ac} ∘ (v_{p−1} − v°_{p−1}),     s_p = S_p − K_{p+1} w_g
//
// In words: flat directions add up, sharp ones keep the last word. The first time d° = 0. At the end the model is
// K_P w_g + d_P.
//
// Rare features wait some rounds for their merge (merge_levels.hpp): each replica goes on with its own weights of them,
// and d_p is what it has done to them since. The penalty's decay goes on for everybody: replicas and model share one
// scale at the end of every round, so that a weight that waits decays with it.
#pragma once

#include <atomic>
#include <cstring>

#include "calibration.hpp"
#include "curvature_sample.hpp"
#include "merge_levels.hpp"

namespace symsgd {

// What a merge has to know of a round.
struct RoundOfBlocks {
    int count = 0;                 // blocks
    int replicas = 0;              // in which features may wait, those of the blocks first
    std::int64_t reach = 0;        // features that are merged, from the first on
    std::int64_t swept = 0;        // and of these, with sweeps, that blocks are corrected in before they run again
    bool refined = false;          // by sweeps
    bool plain = false;            // replicas start with scale 1
    bool fresh_scale = false;      // the merged model has scale 1
    std::vector<double> keep;      // by class and block: about what it will be
    std::vector<double> steps;     // by class: the sum of a block's
    std::vector<double> rows;      // by block
    std::vector<double> owed;      // L1: by class and block, before it; empty without
    std::vector<double> averaged;  // by block: of its iterates, so many, the last ones, are averaged; empty if none are
};

// Σ over the last `averaged` of `rows` steps of what is left, after each, of a change before the first, if `left` is
// left after all of them and every step takes the same share.
inline double sum_left(double left, double rows, double averaged) {
    const double z = left < 1.0 ? -std::log(std::max(left, 1e-300)) / rows : 0.0;
    if (z * rows < 1e-9) return averaged;
    return std::exp(-(rows - averaged) * z) * -std::expm1(-averaged * z) / std::expm1(z);
}

template <class Rows>
class CurvatureMerge {
    using V = typename Rows::Value;

public:
    std::int64_t slices = 1;  // of the features

    // Directions, where the caller does not say: more for rounds of many blocks, over which errors of H add up, and
    // where they cost little.
    static int usual_rank(std::int64_t places, std::int64_t blocks) {
        return static_cast<int>(places <= 1024 ? std::clamp<std::int64_t>(4 * blocks, 32, 64)
                                               : std::clamp<std::int64_t>(3 * blocks, 16, 48));
    }

    // With frequent features in front, most of what rows read of a model is there.
    static Pages pages_of_replica(const Workspace<Rows>& work) {
        return work.features != nullptr ? Pages::as_they_come : Pages::huge;
    }

    // For `width` blocks at most. `rank` 0: as many directions as pay.
    void seat(Workspace<Rows>& work, std::int64_t width, int rank) {
        levels.begin(work.rows.features, work.features, work.spec.strategy.places);
        const ModelView<V> model = work.model.view();
        stride_ = model.stride;
        classes_ = model.classes;
        rank_ = rank;
        width_ = width;
        slices = std::min<std::int64_t>(4 * width, 64);  // enough for those who are early to take some of the others'
        features_ = model.features;
        const auto classes = static_cast<std::size_t>(classes_);
        replicas.clear();
        for (std::int64_t p = 0; p < width; ++p)
            replicas.push_back(std::make_unique<Model<V>>(model.features, model.classes, needs_of_replica(model),
                                                          pages_of_replica(work)));
        cut_ = Array<std::uint8_t>(model.received == nullptr ? 0 : before_size(), Pages::as_they_come);
        starts_.clear();
        factors_ = Array<V>(static_cast<std::size_t>(model.features) * classes, Pages::as_they_come);
        std::fill_n(factors_.data(), factors_.size(), V{1});
        factor_steps_.assign(classes, -1.0);
        calibration_.begin(features_, classes_);
        stale_ = true;
        changed_ = std::vector<std::atomic<std::uint8_t>>(static_cast<std::size_t>(features_ / page + 1));
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
        member.phase(
            classes_ * turns, [&](std::int64_t task) { turn_directions(static_cast<int>(task / turns), task % turns); },
            [&] { stale_ = true; });
    }

    // `cold`: features from here on may have waited, so that replicas which have no block in this round have a share.
    void begin_round(RoundOfBlocks round, std::int64_t cold) {
        round_ = std::move(round);
        begin_ = 0;
        cold_ = cold;
        planned_ = decays_ = decays();
        const auto later = std::accumulate(round_.rows.begin() + 1, round_.rows.end(), 0.0) /
                           std::max(1.0, static_cast<double>(round_.count - 1));
        rows_per_step_.clear();
        for (const double steps : round_.steps) rows_per_step_.push_back(steps > 0.0 ? later / steps : 0.0);
        for (std::size_t c = 0; c < round_.steps.size(); ++c)
            if (!(std::abs(round_.steps[c] - factor_steps_[c]) <= 0.02 * factor_steps_[c])) stale_ = true;
        if (levels.plan(round_.reach)) stale_ = true;
        if (stale_) factor_steps_ = round_.steps;
    }

    // What later rounds go by. Replicas are none of it: they are made anew.
    template <class State>
    void archive(State& state) {
        state(levels, chosen_, sampler_, spectra_, factors_, factor_steps_, calibration_, stale_, merged_reach_,
              merged_cold_);
        if (!State::reading || !chosen_) return;
        make_room();
        for (int c = 0; c < classes_; ++c)
            for (std::int64_t part = 0; part < turns; ++part) turn_directions(c, part);
    }

    // A merge of what has waited, between rounds: what the last one has not merged. What it has, replicas have not
    // taken over yet.
    void begin_flush(std::int64_t cold) {
        round_ = {};
        round_.replicas = static_cast<int>(width_);
        round_.reach = features_;
        decays_.assign(static_cast<std::size_t>(classes_), 1.0);
        begin_ = cold_ = std::max(cold, merged_reach_);
        merged_reach_ = features_;  // and then they take over both
        if (levels.plan_between()) stale_ = true;
        clear_crossed();
    }

    // What the last merge has changed, from one array of weights to another, beginning with a share of them.
    void copy_merged(const V* from, V* to, double share) const {
        copy_written(from, merged_cold_ * stride_, to, share);
        for (std::int64_t i = merged_cold_; i < merged_reach_; i = page_end(i))
            if (changed_[static_cast<std::size_t>(i / page)].load(std::memory_order_relaxed))
                std::copy(from + i * stride_, from + std::min(merged_reach_, page_end(i)) * stride_, to + i * stride_);
    }

    // K_p as far as it is known before the blocks have run: what replicas start from.
    double planned_decay(int p, int c) const { return planned_[static_cast<std::size_t>(c * (round_.count + 1) + p)]; }

    const RoundOfBlocks& round() const { return round_; }
    bool stale() const { return stale_; }
    void renew_factors(std::int64_t slice) {
        const std::int64_t known = sampler_.known();
        const std::int64_t begin = slice * known / slices, end = (slice + 1) * known / slices;
        levels.for_levels([&](std::int64_t first, std::int64_t last, std::int64_t rounds) {
            for (std::int64_t i = std::max(begin, first); i < std::min(end, last); ++i)
                for (int c = 0; c < classes_; ++c)
                    factors_[static_cast<std::size_t>(i * classes_ + c)] =
                        static_cast<V>(factor(c, i, static_cast<double>(rounds)));
        });
    }
    void factors_renewed() { stale_ = false; }
    void levels_changed() { stale_ = true; }

    // change(at) is by how much more the weight of class c at a place has moved in block p than in block q, before
    // the merge.
    auto difference(Workspace<Rows>& work, int p, int q, int c) const {
        const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view(),
                           other = replicas[static_cast<std::size_t>(q)]->view();
        return [=, begun = work.model.view().weights, by = own.lanes[c].scale, others_by = other.lanes[c].scale,
                rested = rested(work, p, c, false) - rested(work, q, c, false)](std::int64_t at) {
            return static_cast<double>(own.weights[at]) * by - static_cast<double>(other.weights[at]) * others_by -
                   static_cast<double>(begun[at]) * rested;
        };
    }

    // A check of this merge, which is not of a round with sweeps, is to say how sharp features are (calibration.hpp).
    void calibrate_next() { calibration_.make_room(std::min({sampler_.known(), cold_, round_.reach})); }
    // What a row of the check's has been off by, in one of the parts that are gone through side by side.
    void begin_calibration(std::int64_t parts) { calibration_.begin_check(parts); }
    void see_off(const Rows& rows, std::int64_t row, int c, std::int64_t part, double off) {
        calibration_.see(rows, row, c, part, off, [&](std::int64_t feature) { return sampler_.place(feature) >= 0; });
    }
    void calibrate() {
        calibration_.learn();
        stale_ = true;
    }

    // Qᵀ s of a block that has ended. The thread that has trained it has it in its cache.
    void project(Workspace<Rows>& work, int p, bool again) {
        const std::vector<std::int64_t>& features = sampler_.features();
        const ModelView<V> global = work.model.view(), own = replicas[static_cast<std::size_t>(p)]->view();
        std::vector<V> moved(features.size());
        for (int c = 0; c < classes_; ++c) {
            const V scale = static_cast<V>(own.lanes[c].scale), before = static_cast<V>(rested(work, p, c, again));
            if (stride_ == 1 && sampler_.features_are_first()) {
                V* __restrict to = moved.data();
                const V* __restrict ended = own.weights, * __restrict begun = global.weights;
                for (std::size_t k = 0; k < moved.size(); ++k) to[k] = ended[k] * scale - begun[k] * before;
            } else {
                for (std::size_t k = 0; k < features.size(); ++k) {
                    const std::int64_t at = features[k] * stride_ + c;
                    moved[k] = own.weights[at] * scale - global.weights[at] * before;
                }
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
    void chain(Workspace<Rows>& work, bool again) {
        if (!again) {
            for (int c = 0; c < classes_; ++c)
                for (int p = 0; p < round_.count; ++p)
                    round_.keep[static_cast<std::size_t>(c * round_.count + p)] = kept_by(work, p, c);
            decays_ = decays();
        }
        merged_reach_ = round_.reach;
        merged_cold_ = std::min(cold_, round_.reach);
        clear_crossed();
        for (auto& changed : changed_) changed.store(0, std::memory_order_relaxed);
        for (int c = 0; c < classes_; ++c) {
            if (!round_.refined) along_[static_cast<std::size_t>(c)] = -intercepts_crossed(work, c);
            const int n = spectrum(c).columns();
            const std::vector<V>& own = projected_[static_cast<std::size_t>(c)];
            std::vector<V>& products = products_[static_cast<std::size_t>(c)];
            std::vector<V>& old = old_u_[static_cast<std::size_t>(c)];
            products.assign(static_cast<std::size_t>(n * columns()), V{});
            if (!again) old.assign(static_cast<std::size_t>(n * round_.count), V{});
            for (int j = 0; j < n; ++j) {
                const bool counts = j < spectrum(c).rank();
                const double sharp =
                    counts ? std::exp(-round_.steps[static_cast<std::size_t>(c)] * spectrum(c).lambda(j)) : 1.0;
                double u = 0.0, last = 0.0, averaged = 0.0, added_up = 0.0, along = 0.0;
                const auto product = [&](int column) -> V& {
                    return products[static_cast<std::size_t>(column * n + j)];
                };
                for (int p = 0; p < round_.count; ++p) {
                    V& started = old[static_cast<std::size_t>(p * n + j)];
                    const double before = u - static_cast<double>(started);
                    last = u;
                    averaged += sum_of(p, sharp * keep(p, c)) * before;
                    if (round_.refined) product(2 * round_.count + p) = started;
                    started = static_cast<V>(u);
                    product(p) = own[static_cast<std::size_t>(p * n + j)];
                    const auto moved = static_cast<double>(product(p));
                    along += moved * (added_up - 0.5 * (1.0 + sharp) * u) + 0.25 * (1.0 - sharp * sharp) * u * u;
                    added_up = keep(p, c) * added_up + moved;
                    u = moved + keep(p, c) * sharp * before;
                    if (round_.refined) product(round_.count + p) = static_cast<V>(u);
                }
                if (averages()) product(columns() - 1) = static_cast<V>(averaged);
                if (round_.refined) continue;
                along_[static_cast<std::size_t>(c)] += along;
                product(round_.count) = static_cast<V>(u);
                product(round_.count + 1) = static_cast<V>(last);
            }
        }
    }

    // A slice of the merged model in place of the old one, which goes to `before`. The lanes have the old model's scale
    // until the round has ended; `merged_scale` is the new one's. `checked`, if there is one, becomes where the chain
    // says that the last block should have started, as far as nothing of it has waited.
    void finish(Workspace<Rows>& work, std::int64_t slice, V* before, Model<V>* checked) {
        const auto [begin, end] = bounds(slice);
        const std::int64_t cold = std::clamp(cold_, begin, end);
        if (checked != nullptr) aim(work, begin, cold, *checked);
        finish_stretch(work, begin, cold, before, crossed_.data() + slice * classes_);
        finish_rare(work, slice, cold, end, before);
        follow_norms(work, slice, begin, end, before);
    }

    // What the losses of the blocks of the last merge would sum up to more, had each of them started from where the one
    // before it has ended: less than nothing, mostly. To first order a start that is off by d changes them by
    // Σ g x·d = −s·d / step size, s being what the block has moved by, with d as it is. In a direction of Q gradient
    // and d fade alike while the block runs, by e^{−ζ} in the end, ζ = aλ, and the second order is known too:
    //
    //     rows × [φ(2ζ) / φ(ζ) × −s d / a + φ(2ζ) λ d² / 2],     φ(ζ) = (1 − e^{−ζ}) / ζ
    double stale_loss(int c) const {
        double crossed = 0.0;
        for (std::int64_t slice = 0; slice < slices; ++slice)
            crossed += crossed_[static_cast<std::size_t>(slice * classes_ + c)];
        const auto lane = static_cast<std::size_t>(c);
        return (along_[lane] - crossed) * rows_per_step_[lane];
    }

    double merged_scale(const Workspace<Rows>& work, int c) const {
        return round_.fresh_scale ? 1.0 : untouched(work, round_.count - 1, c);
    }

    // A slice for refinement: every replica is put where the chain says that its block should have started, and `next`
    // gets the end of the chain. Features that may have waited are none of it.
    void follow(Workspace<Rows>& work, std::int64_t slice, bool again, bool last, V* next, Model<V>* checked) {
        const auto [begin, end] = bounds(slice, swept());
        if (begin == end) return;
        if (stride_ == 1 && sampler_.features_are_first() && !averages())
            return follow_lines(work, begin, end, again, last, next, checked);
        for (int c = 0; c < classes_; ++c) follow_class(work, c, begin, end, again, last && averages(), next);
        if (checked == nullptr) return;
        const ModelView<V> to = checked->view();
        const V* const start = starts_[static_cast<std::size_t>(round_.count - 1)].data();
        for (int c = 0; c < classes_; ++c) {
            const V by = static_cast<V>(1.0 / to.lanes[c].scale);
            for (std::int64_t at = begin * stride_ + c; at < end * stride_; at += stride_)
                to.weights[at] = start[at] * by;
        }
    }

    // A slice of the merged model after the last sweep, whose chain has ended at `next`, in place of the old one. What
    // has waited is merged now; `checked`, if there is one, becomes where the last block should have started.
    void finish_swept(Workspace<Rows>& work, std::int64_t slice, const V* next, V* before, Model<V>* checked) {
        const auto [begin, end] = bounds(slice, swept());
        const ModelView<V> global = work.model.view();
        std::copy(global.weights + begin * stride_, global.weights + end * stride_, before + begin * stride_);
        for (int c = 0; c < classes_; ++c) {
            const V inverse = static_cast<V>(1.0 / merged_scale(work, c));
            for (std::int64_t at = begin * stride_ + c; at < end * stride_; at += stride_)
                global.weights[at] = next[at] * inverse;
        }
        const auto share = [&](std::int64_t from, std::int64_t to, std::int64_t part) {
            return from +
                   part * ((to - from) / static_cast<std::int64_t>(lanes)) / slices * static_cast<std::int64_t>(lanes) +
                   (part == slices ? (to - from) % static_cast<std::int64_t>(lanes) : 0);
        };
        const std::int64_t cold = std::max(swept(), std::min(cold_, round_.reach));
        const std::int64_t from = share(swept(), cold, slice), until = share(swept(), cold, slice + 1);
        if (checked != nullptr) aim(work, from, until, *checked);
        finish_stretch(work, from, until, before, crossed_.data() + slice * classes_);
        const std::int64_t rare = share(cold, round_.reach, slice), last = share(cold, round_.reach, slice + 1);
        finish_rare(work, slice, rare, last, before);
        follow_norms(work, slice, begin, end, before);
        follow_norms(work, slice, from, until, before);
        follow_norms(work, slice, rare, last, before);
    }

    // What the stored weights' Σ w² and Σ |w| have changed by since the merge began, where norms are followed.
    std::pair<double, double> norms_changed(int c) const {
        std::pair<double, double> sum;
        for (std::size_t at = static_cast<std::size_t>(c); at < norms_.size();
             at += static_cast<std::size_t>(classes_)) {
            sum.first += norms_[at].first;
            sum.second += norms_[at].second;
        }
        return sum;
    }

    // Of a stretch of a slice, whose weights were `before`.
    void follow_norms(Workspace<Rows>& work, std::int64_t slice, std::int64_t begin, std::int64_t end,
                      const V* before) {
        if (!work.spec.rule.track_norms) return;
        const V* const now = work.model.view().weights;
        for (int c = 0; c < classes_; ++c) {
            auto& [squares, sizes] = norms_[static_cast<std::size_t>(slice * classes_ + c)];
            if (stride_ == 1) {
                work.kernels.template of_curvature<V>().norms_changed(now + begin, before + begin, end - begin,
                                                                      &squares, &sizes);
                continue;
            }
            for (std::int64_t at = begin * stride_ + c; at < end * stride_; at += stride_) {
                const double to = static_cast<double>(now[at]), from = static_cast<double>(before[at]);
                squares += (to - from) * (to + from);
                sizes += std::fabs(to) - std::fabs(from);
            }
        }
    }

    // What a block of a round with sweeps starts with: lanes of the model's scale as the penalty will have left it.
    double start_scale(const Workspace<Rows>& work, int p, int c) const {
        return round_.plain ? 1.0 : work.model.lanes()[static_cast<std::size_t>(c)].scale * planned_decay(p, c);
    }

    // Features that sweeps go over.
    std::int64_t swept() const { return round_.plain ? round_.reach : std::min({cold_, round_.reach, round_.swept}); }

    // The intercepts by the same chain, of the first `blocks` blocks; `starts` (of each block) are where blocks
    // started, and become where they should have. Null in a round without sweeps.
    double merged_intercept(Workspace<Rows>& work, int c, int blocks, double* starts, double* average = nullptr) {
        const double begun = work.model.lanes()[static_cast<std::size_t>(c)].intercept;
        if (!work.spec.rule.fit_intercept) return begun;
        const auto place = static_cast<std::int64_t>(sampler_.features().size());
        const std::vector<V> products = multiply_places(work, c, place, place + 1);
        const auto product = [&](int column) {
            return static_cast<double>(products[static_cast<std::size_t>(column)]);
        };
        const int end = round_.count + (blocks == round_.count ? 0 : 1);
        const double factor_of_it = factor(c, sampler_.known(), 1.0);
        double v = 0.0, d = 0.0, sum = averages() ? product(columns() - 1) : 0.0;
        for (int p = 0; p < blocks; ++p) {
            double before = v;
            if (starts != nullptr) {
                before -= (starts[p] - begun) * root_ - product(2 * round_.count + p);
                starts[p] = begun + d / root_;
            }
            sum += sum_of(p, factor_of_it) * before;
            v = before * factor_of_it + intercept_moved(work, p, c) - product(p);
            d = v + product(starts != nullptr ? round_.count + p : end);
        }
        if (average != nullptr) *average = sum / root_;
        if (blocks < round_.count && !round_.refined)
            calibration_.set_intercept(c, slope(c, sampler_.known(), true) * v / root_);
        return begun + d / root_;
    }

    // L1, before any block is projected: a slice of the penalty's state and of the ends of the blocks. Beside a weight
    // stands what it has received of the penalty, q. A block that has touched it and kept it has paid for it all that
    // it owes, so that what its predecessors have paid, the q it did not know of, is given back: dw′ = M (dw − dq),
    // dq′ = 0. One that has cut it to 0 leaves it there wherever it came from: dw′ = 0, dq′ = dq − dw. The ends are
    // changed so that the chain, which knows of weights alone, comes to that. The model gets the q of the chain, and
    // `checked` that before its last block; `before` keeps the old one.
    void settle_l1(Workspace<Rows>& work, std::int64_t slice, V* before, Model<V>* checked) {
        const auto [begin, end] = bounds(slice);
        const ModelView<V> global = work.model.view();
        for (std::int64_t i = begin; i < end; ++i) {
            for (int c = 0; c < classes_; ++c) {
                const std::int64_t at = i * stride_ + c;
                const V known = global.received[at];
                const double w = static_cast<double>(global.weights[at]);
                const double factor = static_cast<double>(factors_[static_cast<std::size_t>(i * classes_ + c)]);
                double dw = 0.0, dq = 0.0;
                bool cut = false;
                for (int p = 0; p < round_.count; ++p) {
                    const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
                    if (checked != nullptr && p + 1 == round_.count)
                        checked->view().received[at] = static_cast<V>(static_cast<double>(known) + dq);
                    const double scale = own.lanes[c].scale, kept = factor * kept_by(work, p, c);
                    const double moved = static_cast<double>(own.weights[at]) * scale - w * rested(work, p, c, false);
                    if (own.received[at] == known) {  // it has not been touched
                        dw = kept * dw + moved;
                        continue;
                    }
                    const double paid = static_cast<double>(own.received[at]) - static_cast<double>(known);
                    cut = own.weights[at] == V{};
                    const double settled = cut ? -kept * dw : -kept * dq;
                    const V begun = own.weights[at];
                    own.weights[at] += static_cast<V>(settled / scale);
                    if (own.average != nullptr)  // the sum of the iterates stays what it was
                        own.average[at] -= own.lanes[c].average_scales * (static_cast<double>(own.weights[at]) - begun);
                    dq = cut ? paid + dq - dw : paid;
                    dw = kept * dw + moved + settled;
                }
                before[at] = known;
                global.received[at] = static_cast<V>(static_cast<double>(known) + dq);
                cut_[static_cast<std::size_t>(at)] = cut;
            }
        }
    }

    void make_starts() {
        while (static_cast<int>(starts_.size()) < round_.count)
            starts_.emplace_back(static_cast<std::size_t>(features_) * static_cast<std::size_t>(stride_),
                                 Pages::as_they_come);
    }
    int rank() const { return chosen_ ? spectra_.front().rank() : 0; }
    int stride() const { return stride_; }

    std::vector<std::unique_ptr<Model<V>>> replicas;
    MergeLevels levels;

private:
    // Features that have waited: of what is rare most is as it was, in every replica.
    void finish_rare(Workspace<Rows>& work, std::int64_t slice, std::int64_t begin, std::int64_t end, V* before) {
        double* const crossed = crossed_.data() + slice * classes_;
        for (std::int64_t i = begin; i < end;) {
            const std::int64_t from = i;
            while (i < end && touched(work, i, std::min(end, page_end(i)))) {
                changed_[static_cast<std::size_t>(i / page)].store(1, std::memory_order_relaxed);
                i = std::min(end, page_end(i));
            }
            finish_stretch(work, from, i, before, crossed);
            if (i == end) break;
            const std::int64_t next = std::min(end, page_end(i));
            const V* weights = work.model.view().weights;
            std::copy(weights + i * stride_, weights + next * stride_, before + i * stride_);
            i = next;
        }
    }

    Spectrum<V>& spectrum(int c) { return spectra_[static_cast<std::size_t>(c)]; }
    double keep(int p, int c) const { return round_.keep[static_cast<std::size_t>(c * round_.count + p)]; }
    // The features of a slice. One that Q has a row of takes twice as long, and where features are numbered by
    // frequency all of those come first. Slices begin with a line of the cache, which is then one thread's.
    std::pair<std::int64_t, std::int64_t> bounds(std::int64_t slice) const { return bounds(slice, round_.reach); }
    std::pair<std::int64_t, std::int64_t> bounds(std::int64_t slice, std::int64_t reach) const {
        const std::int64_t number = reach - begin_, places = static_cast<std::int64_t>(sampler_.features().size());
        const std::int64_t slow =
            sampler_.features_are_first() ? std::clamp<std::int64_t>(places - begin_, 0, number) : 0;
        const auto begin = [&](std::int64_t k) {
            const std::int64_t at = k * (number + slow) / slices, feature = at < 2 * slow ? at / 2 : at - slow;
            return k == slices ? reach : begin_ + feature / lanes * lanes;
        };
        return {begin(slice), begin(slice + 1)};
    }

    double decay(int p, int c) const { return decays_[static_cast<std::size_t>(c * (round_.count + 1) + p)]; }  // K_p

    std::vector<double> decays() const {
        std::vector<double> all;
        for (int c = 0; c < classes_; ++c) {
            double decay = 1.0;
            for (int p = 0; p < round_.count; ++p) {
                all.push_back(decay);
                decay *= keep(p, c);
            }
            all.push_back(decay);
        }
        return all;
    }

    // keep_p, now that the block has run for the first time.
    double kept_by(const Workspace<Rows>& work, int p, int c) const {
        const Lane& lane = replicas[static_cast<std::size_t>(p)]->lanes()[static_cast<std::size_t>(c)];
        const double began =
            round_.plain ? 1.0 : work.model.lanes()[static_cast<std::size_t>(c)].scale * planned_decay(p, c);
        return lane.folded * lane.scale / began;
    }

    // What weights without rows of their own have become by the end of block p, as a multiple of what the model has
    // stored: first by the decay that was planned and the block's own, in sweeps by that of all blocks before.
    double rested(const Workspace<Rows>& work, int p, int c, bool again) const {
        if (again) return untouched(work, p, c);
        return work.model.lanes()[static_cast<std::size_t>(c)].scale * planned_decay(p, c) * kept_by(work, p, c);
    }

    // What true weights without rows of their own would be after block p, as a multiple of what the model has stored.
    double untouched(const Workspace<Rows>& work, int p, int c) const {
        return work.model.lanes()[static_cast<std::size_t>(c)].scale * decay(p + 1, c);
    }

    static constexpr std::int64_t turns = 16;   // parts of Q that are turned side by side
    static constexpr std::size_t lanes = 16;    // features that kernels take at once
    static constexpr std::int64_t page = 1024;  // features
    static std::int64_t page_end(std::int64_t i) { return (i / page + 1) * page; }

    bool touched(Workspace<Rows>& work, std::int64_t begin, std::int64_t end) {
        if (round_.fresh_scale) return true;
        const V* weights = work.model.view().weights + begin * stride_;
        const std::size_t bytes = static_cast<std::size_t>((end - begin) * stride_) * sizeof(V);
        return std::any_of(replicas.begin(), replicas.begin() + round_.replicas, [&](const auto& replica) {
            return std::memcmp(replica->view().weights + begin * stride_, weights, bytes) != 0;
        });
    }

    // Where the last block should have started.
    void aim(Workspace<Rows>& work, std::int64_t begin, std::int64_t end, Model<V>& checked) {
        const ModelView<V> to = checked.view();
        for (int c = 0; c < classes_; ++c) {
            const V* weights = work.model.view().weights + c;
            const std::vector<V>& moved = movement(work, c, begin, end, round_.count - 1, round_.count + 1, nullptr);
            const V inverse = static_cast<V>(1.0 / to.lanes[c].scale),
                    kept = static_cast<V>(untouched(work, round_.count - 2, c) / to.lanes[c].scale);
            for (std::int64_t i = begin; i < end; ++i)
                to.weights[i * stride_ + c] =
                    weights[i * stride_] * kept + moved[static_cast<std::size_t>(i - begin)] * inverse;
            if (begin < calibration_.known() && !round_.refined)
                follow_slopes(c, begin, std::min(end, calibration_.known()), moved);
        }
    }

    // What the merged weights have with the sharpness of features: of d before the last block, what is not along Q.
    void follow_slopes(int c, std::int64_t begin, std::int64_t end, const std::vector<V>& moved) {
        Room& room = own_room();
        const auto [first, last] = places_between(begin, end);
        room.along.assign(static_cast<std::size_t>(last - first), V{});
        const auto lane = static_cast<std::size_t>(c);
        const int n = spectrum(c).columns();
        const V* const u = products_[lane].data() + (round_.count + 1) * n;
        for (int j = 0; j < n; ++j) {
            const V* const q = turned_[lane].data() + j * room_ + first;
            for (std::size_t k = 0; k < room.along.size(); ++k) room.along[k] += q[k] * u[j];
        }
        std::int64_t k = first;
        for (std::int64_t i = begin; i < end; ++i) {
            V v = moved[static_cast<std::size_t>(i - begin)];
            const bool placed = k < last && sampler_.features()[static_cast<std::size_t>(k)] == i;
            if (placed) v -= room.along[static_cast<std::size_t>(k++ - first)];
            calibration_.slope(i, c) = static_cast<V>(slope(c, i, placed)) * v;
        }
    }

    // Of what the last block leaves of a weight of 1, with the logarithm of the number that c is multiplied by.
    double slope(int c, std::int64_t feature, bool placed) const {
        const double fade = factor_steps_[static_cast<std::size_t>(c)] *
                            spectra_[static_cast<std::size_t>(c)].rest(feature) * calibration_.of(c, placed);
        return -keep(round_.count - 1, c) * fade * std::exp(-fade);
    }

    void finish_stretch(Workspace<Rows>& work, std::int64_t begin, std::int64_t end, V* before, double* crossed) {
        if (begin == end) return;
        for (int c = 0; c < classes_; ++c) {
            V* weights = work.model.view().weights + c;
            const double all = untouched(work, round_.count - 1, c), fresh = merged_scale(work, c);
            if (averages()) average_stretch(work, c, begin, end);
            const std::vector<V>& moved = movement(work, c, begin, end, round_.count, round_.count, crossed + c);
            const V kept = static_cast<V>(all / fresh), inverse = static_cast<V>(1.0 / fresh);
            if (stride_ == 1) {
                work.kernels.template of_curvature<V>().take_movement(weights + begin, before + begin, moved.data(),
                                                                      end - begin, kept, inverse);
                if (cut_.size() != 0)
                    for (std::int64_t i = begin; i < end; ++i)
                        if (cut_[static_cast<std::size_t>(i)]) weights[i] = V{};
            } else {
                for (std::int64_t i = begin; i < end; ++i) {
                    V& weight = weights[i * stride_];
                    before[i * stride_ + c] = weight;
                    weight = weight * kept + moved[static_cast<std::size_t>(i - begin)] * inverse;
                    if (cut_.size() != 0 && cut_[static_cast<std::size_t>(i * stride_ + c)]) weight = V{};
                }
            }
        }
    }

    // The same once sweeps have ended: what a block had missed is what its start was off by in the end.
    void average_followed(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end) {
        const V* weights = work.model.view().weights;
        add_averages(work, c, begin, end, [&](std::int64_t at, double factor, const V* product) {
            const auto q = [this, product](int part, int p) {
                return product == nullptr ? 0.0 : static_cast<double>(product[part * round_.count + p]);
            };
            const double w = static_cast<double>(weights[at]);
            return [=, this, &work, v = 0.0](int p) mutable {
                const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
                const double started =
                    static_cast<double>(starts_[static_cast<std::size_t>(p)][static_cast<std::size_t>(at)]);
                const double missed = p > 0 ? v - (started - w * untouched(work, p - 1, c) - q(2, p)) : 0.0;
                v = missed * factor * keep(p, c) + static_cast<double>(own.weights[at]) * own.lanes[c].scale -
                    w * untouched(work, p, c) - q(0, p);
                return missed;
            };
        });
    }

    // what Q is multiplied by: u of each block alone, then of the chain (its end, and before its last block, if that is
    // all that is wanted), then of where blocks started
    int columns() const { return (round_.refined ? 3 * round_.count : round_.count + 2) + (averages() ? 1 : 0); }

    bool averages() const { return !round_.averaged.empty(); }
    double sum_of(int p, double left) const {
        if (!averages()) return 0.0;
        const auto block = static_cast<std::size_t>(p);
        return sum_left(left, round_.rows[block], round_.averaged[block]);
    }

    // Adds what blocks have averaged of feature i: their own sums, and of what each of them had missed, `missed(p)`, as
    // much as it would have kept of it; and of the directions of Q, `followed`.
    template <class Missed>
    void add_average(Workspace<Rows>& work, int c, std::int64_t i, double followed, Missed&& missed) {
        const ModelView<V> global = work.model.view();
        const std::int64_t at = i * stride_ + c;
        double total = followed;
        double sum = 0.0, of_rows = -1.0, of_keep = -1.0;  // blocks are mostly alike
        for (int p = 0; p < round_.count; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            total += own.average[at] + own.lanes[c].average_scales * static_cast<double>(own.weights[at]);
            const auto block = static_cast<std::size_t>(p);
            if (round_.averaged[block] != of_rows || keep(p, c) != of_keep) {
                of_rows = round_.averaged[block];
                of_keep = keep(p, c);
                sum = sum_of(p, static_cast<double>(factors_[static_cast<std::size_t>(i * classes_ + c)]) * of_keep);
            }
            total += sum * missed(p);
        }
        global.average[at] += global.lanes[c].average_scales * static_cast<double>(global.weights[at]) + total;
    }

    // For features [begin, end); of each, missing(at, factor, product) is what says what blocks had missed of it.
    // `product` is null where Q has no row of the feature.
    template <class Missing>
    void add_averages(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, Missing&& missing) {
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        std::int64_t k = first;
        for (std::int64_t i = begin; i < end; ++i) {
            const bool place = k < last && sampler_.features()[static_cast<std::size_t>(k)] == i;
            const V* product = place ? products.data() + (k++ - first) * columns() : nullptr;
            const double factor = static_cast<double>(factors_[static_cast<std::size_t>(i * classes_ + c)]);
            add_average(work, c, i, place ? static_cast<double>(product[columns() - 1]) : 0.0,
                        missing(i * stride_ + c, factor, product));
        }
    }

    // All blocks have started from the model.
    void average_stretch(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end) {
        const V* weights = work.model.view().weights;
        add_averages(work, c, begin, end, [&](std::int64_t at, double factor, const V* product) {
            const double w = static_cast<double>(weights[at]);
            return [=, this, &work, v = 0.0](int p) mutable {
                const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
                const double before = v;
                v = v * factor * keep(p, c) + static_cast<double>(own.weights[at]) * own.lanes[c].scale -
                    w * rested(work, p, c, false) - (product == nullptr ? 0.0 : static_cast<double>(product[p]));
                return before;
            };
        });
    }

    static ModelNeeds needs_of_replica(const ModelView<V>& model) {
        return {.received = model.received != nullptr, .average = model.average != nullptr};
    }
    std::size_t before_size() const { return static_cast<std::size_t>(features_ * stride_); }

    void choose(Workspace<Rows>& work, const WrittenOrder& order) {
        sampler_.choose_features(work.rows, work.features, order, work.spec.strategy.places, width_);
        const auto places = static_cast<std::int64_t>(sampler_.features().size());
        for (Spectrum<V>& spectrum : spectra_) spectrum.reset(places, rank_ > 0 ? rank_ : usual_rank(places, width_));
        make_room();
        chosen_ = true;
    }

    // A part of Q by direction, with room to read some features too many.
    void turn_directions(int c, std::int64_t part) {
        const Spectrum<V>& own = spectrum(c);
        const auto places = static_cast<std::int64_t>(sampler_.features().size());
        Array<V>& turned = turned_[static_cast<std::size_t>(c)];
        for (int j = 0; j < own.columns(); ++j)
            for (std::int64_t place = part * places / turns; place < (part + 1) * places / turns; ++place)
                turned[static_cast<std::size_t>(j * room_ + place)] = own.q(place)[j];
    }

    void make_room() {
        room_ = static_cast<std::int64_t>(sampler_.features().size()) + lanes;
        turned_ = std::vector<Array<V>>(spectra_.size());
        for (std::size_t c = 0; c < spectra_.size(); ++c)
            turned_[c] = Array<V>(static_cast<std::size_t>(spectra_[c].columns() * room_));
        for (std::size_t c = 0; c < spectra_.size(); ++c)
            projected_[c].resize(static_cast<std::size_t>(width_ * spectra_[c].columns()));
    }

    double intercept_moved(const Workspace<Rows>& work, std::int64_t p, int c) const {
        const auto lane = static_cast<std::size_t>(c);
        return (replicas[static_cast<std::size_t>(p)]->lanes()[lane].intercept - work.model.lanes()[lane].intercept) *
               root_;
    }

    double intercepts_crossed(const Workspace<Rows>& work, int c) const {
        double crossed = 0.0, d = 0.0;
        for (int p = 0; p < round_.count; ++p) {
            const double moved = intercept_moved(work, p, c);
            crossed += moved * d;
            d = keep(p, c) * d + moved;
        }
        return crossed;
    }

    void clear_crossed() {
        crossed_.assign(static_cast<std::size_t>(slices * classes_), 0.0);
        along_.assign(static_cast<std::size_t>(classes_), 0.0);
        norms_.assign(static_cast<std::size_t>(slices * classes_), {});
    }

    double factor(int c, std::int64_t feature, double rounds) const {
        const double rest = spectra_[static_cast<std::size_t>(c)].rest(feature);
        if (!(rest > 0.0)) return 1.0;
        const bool placed = feature == sampler_.known() || sampler_.place(feature) >= 0;
        return std::exp(-factor_steps_[static_cast<std::size_t>(c)] * rounds * rest * calibration_.of(c, placed));
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

    // d of class c for features [begin, end) after the first `blocks` blocks, all of which started from the model; u of
    // the chain so far is in a column of the products.
    // It is this thread's until it asks for another.
    const std::vector<V>& movement(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, int blocks,
                                   int column, double* crossed) {
        const std::int64_t cold = std::clamp(cold_, begin, end);
        Room& room = own_room();
        std::vector<V>& v = room.moved;
        v.resize(static_cast<std::size_t>(end - begin));
        const double frequent = chain_weights(work, c, begin, cold, blocks, v.data());
        // a replica without a block in this round may have moved what has waited
        const double rare = chain_weights(work, c, cold, end, round_.replicas, v.data() + (cold - begin));
        if (crossed != nullptr) *crossed += frequent + rare;
        // directions of Q are followed by u, not by the diagonal
        const auto [first, last] = places_between(begin, end);
        if (first == last || blocks == 0) return v;
        const auto places = static_cast<std::size_t>(last - first), filled = (places + lanes - 1) / lanes * lanes;
        room.factors.resize(filled);
        room.along.resize(filled);
        room.keeps.clear();
        for (int p = 0; p < blocks; ++p) room.keeps.push_back(static_cast<V>(keep(p, c)));
        const std::int64_t* const features = sampler_.features().data() + first;
        for (std::size_t k = 0; k < places; ++k)
            room.factors[k] = factors_[static_cast<std::size_t>(features[k] * classes_ + c)];
        const auto lane = static_cast<std::size_t>(c);
        work.kernels.template of_curvature<V>().chain_directions(
            turned_[lane].data() + first, room_, spectrum(c).columns(), last - first, products_[lane].data(), blocks,
            column, room.keeps.data(), room.factors.data(), room.along.data());
        for (std::size_t k = 0; k < places; ++k) v[static_cast<std::size_t>(features[k] - begin)] += room.along[k];
        return v;
    }

    // d of single weights, as if Q were not there. Returns Σ s_p·d_{p−1}.
    double chain_weights(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, int blocks, V* out) {
        if (begin == end) return 0.0;
        const V* weights = work.model.view().weights;
        Room& room = own_room();
        room.ends.clear();
        room.befores.clear();
        room.scales.clear();
        room.keeps.clear();
        for (int p = 0; p < blocks; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            const bool trained = p < round_.count;
            room.ends.push_back(own.weights);
            room.befores.push_back(
                static_cast<V>(trained ? rested(work, p, c, false) : untouched(work, round_.count - 1, c)));
            room.scales.push_back(trained ? static_cast<V>(own.lanes[c].scale) : room.befores.back());
            room.keeps.push_back(trained ? static_cast<V>(keep(p, c)) : V{1});
        }
        const V* factors = factors_.data() + c;
        if (stride_ == 1) {
            return work.kernels.template of_curvature<V>().chain_weights(room.ends.data(), room.scales.data(),
                                                                         room.keeps.data(), room.befores.data(), blocks,
                                                                         weights, factors, begin, end, out);
        }
        std::fill_n(out, end - begin, V{});
        double crossed = 0.0;
        for (std::size_t p = 0; p < room.ends.size(); ++p) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t at = i * stride_ + c;
                const V moved = room.ends[p][at] * room.scales[p] - weights[at] * room.befores[p];
                crossed += static_cast<double>(moved * out[i - begin]);
                out[i - begin] = out[i - begin] * (factors[i * classes_] * room.keeps[p]) + moved;
            }
        }
        return crossed;
    }

    // What a thread needs for a slice: made anew for each, it would take as long as what is done with it.
    struct Room {
        std::vector<V> moved, factors, along, keeps, scales, befores, begun, inverse;
        std::vector<const V*> ends;
        std::vector<V*> starts, missed;
    };
    static Room& own_room() {
        static thread_local Room room;
        return room;
    }

    // The same by whole lines, of one class.
    void follow_lines(Workspace<Rows>& work, std::int64_t begin, std::int64_t end, bool again, bool last, V* next,
                      Model<V>* checked) {
        const auto& kernels = work.kernels.template of_curvature<V>();
        const int blocks = round_.count, n = spectrum(0).columns();
        Room& room = own_room();
        for (auto* numbers : {&room.scales, &room.befores, &room.begun, &room.inverse, &room.keeps}) numbers->clear();
        room.starts.clear();
        room.missed.clear();
        for (int p = 0; p < blocks; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            room.starts.push_back(own.weights);
            room.missed.push_back(starts_[static_cast<std::size_t>(p)].data());
            room.scales.push_back(static_cast<V>(own.lanes[0].scale));
            room.befores.push_back(static_cast<V>(rested(work, p, 0, again)));
            room.begun.push_back(static_cast<V>(untouched(work, p - 1, 0)));
            room.inverse.push_back(static_cast<V>(1.0 / start_scale(work, p, 0)));
            room.keeps.push_back(static_cast<V>(keep(p, 0)));
        }
        const auto places =
            std::clamp<std::int64_t>(static_cast<std::int64_t>(sampler_.features().size()) - begin, 0, end - begin);
        const std::int64_t filled = (places + static_cast<std::int64_t>(lanes) - 1) / static_cast<std::int64_t>(lanes) *
                                    static_cast<std::int64_t>(lanes);
        const int from = last ? std::max(0, blocks - 2) : 0;
        room.along.resize(static_cast<std::size_t>((2 * blocks - from) * filled));
        if (places > 0) {
            const V* const q = turned_[0].data() + begin;
            const V* const products = products_[0].data();
            kernels.multiply_along(q, room_, n, places, products, blocks, room.along.data(), filled);
            kernels.multiply_along(q, room_, n, places, products + (blocks + from) * n, blocks - from,
                                   room.along.data() + blocks * filled, filled);
        }
        kernels.follow({.begin = begin,
                        .end = end,
                        .blocks = blocks,
                        .weights = work.model.view().weights,
                        .factors = factors_.data(),
                        .ends = room.starts.data(),
                        .missed = room.missed.data(),
                        .scales = room.scales.data(),
                        .ended = room.befores.data(),
                        .begun = room.begun.data(),
                        .inverse = room.inverse.data(),
                        .keeps = room.keeps.data(),
                        .all = static_cast<V>(untouched(work, blocks - 1, 0)),
                        .places = filled,
                        .room = filled,
                        .own = room.along.data(),
                        .chained = room.along.data() + blocks * filled,
                        .chained_from = from,
                        .again = again,
                        .last = last,
                        .next = next,
                        .checked = checked == nullptr ? nullptr : checked->view().weights,
                        .checked_by = checked == nullptr ? V{} : static_cast<V>(1.0 / checked->lanes()[0].scale)});
    }

    void follow_class(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, bool again, bool average,
                      V* next) {
        const V* weights = work.model.view().weights;
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        const auto number = static_cast<std::size_t>(end - begin);
        std::vector<V> q(3 * number, V{}), v(number, V{}), d(number, V{});
        if (average) average_followed(work, c, begin, end);
        for (int p = 0; p < round_.count; ++p) {
            const ModelView<V> own = replicas[static_cast<std::size_t>(p)]->view();
            const V scale = static_cast<V>(own.lanes[c].scale), kept = static_cast<V>(keep(p, c));
            const V begun = static_cast<V>(untouched(work, p - 1, c)),
                    ended = static_cast<V>(rested(work, p, c, again));
            const V inverse = static_cast<V>(1.0 / start_scale(work, p, c));
            V* start = starts_[static_cast<std::size_t>(p)].data();
            for (std::int64_t k = first; k < last; ++k) {
                const auto i = static_cast<std::size_t>(sampler_.features()[static_cast<std::size_t>(k)] - begin);
                for (int part = 0; part < 3; ++part)
                    q[static_cast<std::size_t>(part) * number + i] =
                        products[static_cast<std::size_t>((k - first) * columns() + part * round_.count + p)];
            }
            for (std::int64_t i = begin; i < end; ++i) {
                const auto here = static_cast<std::size_t>(i - begin);
                const std::int64_t at = i * stride_ + c;
                const V from = weights[at] * begun;
                const V moved = own.weights[at] * scale - weights[at] * ended;
                const V old = p > 0 && again ? start[at] - from - q[2 * number + here] : V{};
                const V started = from + d[here];
                v[here] =
                    (v[here] - old) * (factors_[static_cast<std::size_t>(i * classes_ + c)] * kept) + (moved - q[here]);
                d[here] = v[here] + q[number + here];
                if (p > 0) {
                    start[at] = started;
                    own.weights[at] = started * inverse;
                }
                if (p > 0 && own.average != nullptr) own.average[at] = 0.0;
            }
        }
        const V all = static_cast<V>(untouched(work, round_.count - 1, c));
        for (std::int64_t i = begin; i < end; ++i)
            next[i * stride_ + c] = weights[i * stride_ + c] * all + d[static_cast<std::size_t>(i - begin)];
    }

    std::int64_t features_ = 0, width_ = 1;
    int classes_ = 1, stride_ = 1, rank_ = 0;
    double root_ = 1.0;  // 1 / √κ: the intercept counts as a weight of a feature of value √κ
    bool chosen_ = false;
    CurvatureSampler<Rows> sampler_;
    CurvatureSample<V> sample_;
    std::vector<Spectrum<V>> spectra_;  // by class
    std::vector<Array<V>> turned_;      // Q of each, columns × room
    std::int64_t room_ = 0;

    RoundOfBlocks round_;
    std::int64_t begin_ = 0, cold_ = 0;
    std::vector<double> planned_, decays_;             // K, by class and block
    std::int64_t merged_reach_ = 0, merged_cold_ = 0;  // of the last merge
    std::vector<std::atomic<std::uint8_t>> changed_;   // by it, of what may have waited, by page
    Array<V> factors_;                                 // e^{−ac}, features × classes, for these steps:
    std::vector<double> factor_steps_;
    Calibration<V> calibration_;
    bool stale_ = true;
    std::vector<std::vector<V>> projected_, products_, old_u_;  // by class, numbers of a column together
    std::vector<double> rows_per_step_;                         // by class, of a block
    std::vector<double> crossed_, along_;  // see stale_loss: by slice and class, and of the directions by class
    Array<std::uint8_t> cut_;              // L1: weights that the last block to touch them has left at 0
    std::vector<std::pair<double, double>> norms_;  // by slice and class
    std::vector<Array<V>> starts_;                  // by block: where it started, in a round with sweeps
};

}  // namespace symsgd

// Rounds merged by the curvature combiner: MR-SymSGD with nothing beside the weights in the inner loop.
//
// A block's derivative M_p is taken to be that of any block: all are samples of one distribution, so that
//
//     M_p ≈ keep_p exp(−a H),   a = Σ step sizes of a block,  H = E[h x̃ x̃ᵀ] (spectrum.hpp),  keep_p = Π(1 − step × l2)
//
// and the chain of a round, d_p = (S_p − w_g) + M_p d_{p−1}, is carried in the coordinates of H as pairs
//
//     d = Q u + v:   u_p = Qᵀ s_p + keep_p e^{−aΛ} (u_{p−1} − u°_{p−1}),   v_p = (s_p − Q Qᵀ s_p) + keep_p e^{−ac} ∘
//     (v_{p−1} − v°_{p−1})
//
// s_p = S_p − w_g. The starred pair is where block p started from, less w_g: 0 at first. A *sweep* of refinement trains
// the blocks again, each from where the chain says that its predecessor ended; P − 1 of them are sequential SGD, for
// every loss. What a sweep changes is the error of the merge before it, and it is measured on the predictions of a few
// rows: it steers the size of the blocks, and a merge that is too far off is refined until it is not.
#include <cmath>
#include <limits>

#include "common.hpp"
#include "symsgd/crew.hpp"
#include "symsgd/spectrum.hpp"

namespace symsgd {

namespace {

constexpr std::int64_t first_block = 32;  // rows of a block to begin with
constexpr std::int64_t most_places_of_q = 4096;
constexpr std::int64_t probe_rows = 256;
constexpr int fewest_between_checks = 8, most_between_checks = 64;  // rounds
constexpr std::int64_t sample_entries = 100000;                     // of the rows that the spectrum is estimated from
constexpr std::int64_t finish_slices = 64, project_slices = 16;
constexpr std::int64_t net_entries = 8192;  // of the rows that every merge is judged by
constexpr double harm = 2.0;                // a merge that makes their loss so many times larger is not accepted
constexpr int most_sweeps = 3;              // of refinement before the rows of a round are trained one after the other

template <class Rows>
class CurvatureRounds final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        begin_pass(work);
        Crew crew;
        crew.run(static_cast<int>(std::min<std::int64_t>(work.spec.strategy.cores, width_)), [&](Crew::Member& member) {
            Poll poll(should_stop);
            const auto stopped = [&] {
                if (member.number == 0 && poll()) stop_ = true;
                return stop_.load(std::memory_order_relaxed);
            };
            while (at_ < order_.count() && !stop_) {
                if (round_width() == 1 || sequential_until_ > rows_done_)
                    run_alone(member, work, stopped);
                else
                    run_round(member, work, stopped);
            }
        });
        sums.stopped = stop_;
        sums.rows = at_;
        sums.merges = merges_;
        report(sums);
        work.model.set_t(t_ + static_cast<double>(at_));
    }

private:
    struct Piece {
        std::int64_t begin, rows;
        double t;
    };

    std::int64_t round_width() const {
        return std::min<std::int64_t>(width_, (order_.count() - at_ + block_rows_ - 1) / block_rows_);
    }

    // ---- one thread -------------------------------------------------------------------------------------------------

    // A stretch of the order on the model itself: all there is with one thread, and what is done while blocks large
    // enough to be worth a round would not be merged well enough.
    template <class Stopped>
    void run_alone(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.phase(
            1,
            [&](std::int64_t) {
                std::int64_t rows = order_.count() - at_;
                if (width_ > 1 && sequential_until_ > rows_done_) rows = std::min(rows, sequential_until_ - rows_done_);
                if (width_ > 1 && sequential_until_ <= rows_done_) rows = std::min(rows, block_rows_);
                done_ = train(work, work.model, {at_, rows, t_ + static_cast<double>(at_)}, stopped);
            },
            [&] {
                at_ += done_;
                rows_done_ += done_;
                alone_rows_ += done_;
                check_next();
                if (width_ > 1) fold_scale(work);
            });
    }

    // Trains rows of the order on a model; returns how many before it was stopped.
    template <class Stopped>
    std::int64_t train(Workspace<Rows>& work, Model<V>& model, const Piece& piece, const Stopped& stopped) {
        model.set_t(piece.t);
        ModelView<V> view = model.view();
        const auto slice = std::make_unique<Slice>();
        const std::int64_t rows = slice_rows(work.rows, view.stride);
        std::int64_t at = 0;
        for (; at < piece.rows && !stopped(); at += rows) {
            const std::int64_t count = std::min(rows, piece.rows - at);
            const std::int64_t* order = order_.at(piece.begin + at);
            const Block block = slice->read(work.spec.targets, order, order, static_cast<std::size_t>(count),
                                            static_cast<std::size_t>(order_.count() - piece.begin - at));
            work.kernels.template of_rows<Rows>().learn(work.rows, block, rule_, view);
        }
        work.kernels.template of_models<V>().finish_pass(rule_, view);
        return std::min(at, piece.rows);
    }

    // ---- a round ----------------------------------------------------------------------------------------------------

    template <class Stopped>
    void run_round(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.alone([&] { plan(work); });
        if (spectrum_due_) estimate(member, work);
        train_blocks(member, work, 0, stopped);
        if (stop_) return;
        if (!refining_) {
            project(member, work, false);
            finish(member, work);
        } else {
            refine(member, work, stopped);
            if (stop_) return;
            commit(member, work);
        }
        member.alone([&] { end_round(work); });
    }

    void plan(Workspace<Rows>& work) {
        const std::int64_t count = round_width(), classes = work.model.classes();
        pieces_.clear();
        for (std::int64_t p = 0; p < count; ++p) {
            const std::int64_t begin = at_ + p * block_rows_;
            pieces_.push_back({begin, std::min(block_rows_, order_.count() - begin), t_ + static_cast<double>(begin)});
        }
        const Rule& rule = work.spec.rule;
        keep_.assign(static_cast<std::size_t>(count * classes), 1.0);
        steps_.assign(static_cast<std::size_t>(classes), 0.0);
        for (std::int64_t c = 0; c < classes; ++c) {
            const double size = work.model.lanes()[static_cast<std::size_t>(c)].step_size;
            for (std::int64_t p = 0; p < count; ++p) {
                const Piece& piece = pieces_[static_cast<std::size_t>(p)];
                keep_[static_cast<std::size_t>(c * count + p)] =
                    product_of_decays(rule.schedule, size, rule.penalty.l2, piece.t, piece.rows);
                if (p > 0)
                    steps_[static_cast<std::size_t>(c)] +=
                        sum_of_steps(rule.schedule, size, piece.t, piece.rows) / static_cast<double>(count - 1);
            }
        }
        spectrum_due_ = rows_done_ >= next_spectrum_;
        checking_ = since_check_ >= between_checks_ || suspect_;
        refining_ = checking_ || asked_ > 0;
        factors_stale_ = factors_stale_ || spectrum_due_;
        for (std::size_t c = 0; c < steps_.size(); ++c)
            if (!(std::abs(steps_[c] - factor_steps_[c]) <= 0.02 * factor_steps_[c])) factors_stale_ = true;
        if (factors_stale_) factor_steps_ = steps_;
        for (auto& replica : replicas_) replica->lanes() = work.model.lanes();
    }

    // From block `first` on; in sweeps the replicas stand where the chain has put them.
    template <class Stopped>
    void train_blocks(Crew::Member& member, Workspace<Rows>& work, std::int64_t first, const Stopped& stopped) {
        const auto count = static_cast<std::int64_t>(pieces_.size());
        member.phase(count - first, [&](std::int64_t task) {
            const std::int64_t p = first + task;
            Model<V>& replica = *replicas_[static_cast<std::size_t>(p)];
            const ModelView<V> from = work.model.view(), to = replica.view();
            if (first == 0) std::copy_n(from.weights, from.features * from.stride, to.weights);
            for (Lane& lane : replica.lanes()) {
                lane.loss = 0.0;
                lane.likelihood = 1.0;
            }
            if (train(work, replica, pieces_[static_cast<std::size_t>(p)], stopped) <
                pieces_[static_cast<std::size_t>(p)].rows)
                stop_ = true;
        });
    }

    // ---- the merge --------------------------------------------------------------------------------------------------

    double intercept_moved(const Workspace<Rows>& work, std::int64_t p, int c) const {
        const auto lane = static_cast<std::size_t>(c);
        return (replicas_[static_cast<std::size_t>(p)]->lanes()[lane].intercept - work.model.lanes()[lane].intercept) *
               root_;
    }

    // u = Qᵀ s of every block, and the chain of u. `again`: the blocks started from `starts_`.
    void project(Crew::Member& member, Workspace<Rows>& work, bool again) {
        const int count = static_cast<int>(pieces_.size());
        const ModelView<V> global = work.model.view();
        const auto places = static_cast<std::int64_t>(features_.size());
        member.phase(
            project_slices * global.classes,
            [&](std::int64_t task) {
                const auto c = static_cast<int>(task / project_slices);
                const std::int64_t slice = task % project_slices, begin = slice * places / project_slices,
                                   end = (slice + 1) * places / project_slices;
                const Spectrum<V>& spectrum = spectra_[static_cast<std::size_t>(c)];
                std::vector<V>& sums = partial_[static_cast<std::size_t>(task)];
                sums.assign(static_cast<std::size_t>(spectrum.columns() * count), V{});  // block by block
                std::vector<V> moved(static_cast<std::size_t>((end - begin) * count));
                for (int p = 0; p < count; ++p) {
                    const ModelView<V> own = replicas_[static_cast<std::size_t>(p)]->view();
                    const V scale = static_cast<V>(own.lanes[c].scale);
                    for (std::int64_t k = begin; k < end; ++k) {
                        const std::int64_t at = features_[static_cast<std::size_t>(k)] * global.stride + c;
                        moved[static_cast<std::size_t>((k - begin) * count + p)] =
                            own.weights[at] * scale - global.weights[at];
                    }
                }
                work.kernels.template of_curvature<V>().add_products(spectrum.q(begin), end - begin, spectrum.columns(),
                                                                     moved.data(), count, sums.data());
            },
            [&] { chain(work, again); });
    }

    // The chain of u, which is short: columns of `products_` are what Q is to be multiplied by.
    void chain(Workspace<Rows>& work, bool again) {
        const int count = static_cast<int>(pieces_.size());
        const auto places = static_cast<std::int64_t>(features_.size());
        for (int c = 0; c < work.model.classes(); ++c) {
            const Spectrum<V>& spectrum = spectra_[static_cast<std::size_t>(c)];
            const int n = spectrum.columns(), wide = product_columns();
            std::vector<V>& products = products_[static_cast<std::size_t>(c)];
            products.assign(static_cast<std::size_t>(n * wide), V{});
            std::vector<V>& old = old_u_[static_cast<std::size_t>(c)];
            if (!again) old.assign(static_cast<std::size_t>(n * count), V{});
            const V* row = spectrum.q(places);
            for (int j = 0; j < n; ++j) {
                double u = 0.0;
                const double sharp =
                    j < spectrum.rank() ? std::exp(-steps_[static_cast<std::size_t>(c)] * spectrum.lambda(j)) : 1.0;
                for (int p = 0; p < count; ++p) {
                    double own = static_cast<double>(row[j]) * intercept_moved(work, p, c);
                    for (std::int64_t slice = 0; slice < project_slices; ++slice)
                        own += static_cast<double>(partial_[static_cast<std::size_t>(c * project_slices + slice)]
                                                           [static_cast<std::size_t>(p * n + j)]);
                    V& started = old[static_cast<std::size_t>(j * count + p)];  // of the start of block p
                    const double before = u - static_cast<double>(started);
                    if (refining_) products[static_cast<std::size_t>((2 * count + p) * n + j)] = started;
                    started = static_cast<V>(u);
                    u = own + keep_[static_cast<std::size_t>(c * count + p)] * sharp * before;
                    products[static_cast<std::size_t>((p)*n + j)] = static_cast<V>(own);
                    if (refining_) products[static_cast<std::size_t>((count + p) * n + j)] = static_cast<V>(u);
                }
                if (!refining_) products[static_cast<std::size_t>(count * n + j)] = static_cast<V>(u);
            }
        }
    }

    int product_columns() const {
        const int count = static_cast<int>(pieces_.size());
        return refining_ ? 3 * count : count + 1;
    }

    std::int64_t slice_begin(std::int64_t slice, std::int64_t features) const {
        return slice * features / finish_slices;
    }

    double factor(int c, std::int64_t feature) const {
        const double rest = spectra_[static_cast<std::size_t>(c)].rest(feature);
        return rest > 0.0 ? std::exp(-factor_steps_[static_cast<std::size_t>(c)] * rest) : 1.0;
    }

    void renew_factors(std::int64_t begin, std::int64_t end, int classes) {
        for (std::int64_t i = begin; i < end; ++i)
            for (int c = 0; c < classes; ++c)
                factors_[static_cast<std::size_t>(i * classes + c)] = static_cast<V>(factor(c, i));
    }

    // The merge of a round that nobody looks at more closely: v, and the model.
    void finish(Crew::Member& member, Workspace<Rows>& work) {
        const ModelView<V> global = work.model.view();
        const int count = static_cast<int>(pieces_.size());
        member.phase(
            finish_slices,
            [&](std::int64_t slice) {
                const std::int64_t begin = slice_begin(slice, global.features),
                                   end = slice_begin(slice + 1, global.features);
                if (factors_stale_) renew_factors(begin, end, global.classes);
                for (int c = 0; c < global.classes; ++c) finish_slice(work, c, begin, end, count);
            },
            [&] {
                factors_stale_ = false;
                for (int c = 0; c < global.classes; ++c) {
                    const Lane& lane = global.lanes[c];
                    before_intercepts_[static_cast<std::size_t>(c)] = lane.intercept;
                    next_intercepts_[static_cast<std::size_t>(c)] = merged_intercepts(work, c, nullptr);
                }
                for (int c = 0; c < global.classes; ++c)
                    global.lanes[c].intercept = next_intercepts_[static_cast<std::size_t>(c)];
            });
    }

    void finish_slice(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, int count) {
        const ModelView<V> global = work.model.view();
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        const int wide = product_columns();
        std::vector<V> v(static_cast<std::size_t>(end - begin), V{}), scales, keeps;
        std::vector<const V*> ends;
        for (int p = 0; p < count; ++p) {
            const ModelView<V> own = replicas_[static_cast<std::size_t>(p)]->view();
            ends.push_back(own.weights);
            scales.push_back(static_cast<V>(own.lanes[c].scale));
            keeps.push_back(static_cast<V>(keep_[static_cast<std::size_t>(c * count + p)]));
        }
        const V* factors = factors_.data() + c;
        if (stride_ == 1) {
            work.kernels.template of_curvature<V>().chain_weights(ends.data(), scales.data(), keeps.data(), count,
                                                                  global.weights, factors, begin, end, v.data());
        } else {
            for (int p = 0; p < count; ++p)
                for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t at = i * stride_ + c;
                    V& sum = v[static_cast<std::size_t>(i - begin)];
                    sum = sum * (factors[i * global.classes] * keeps[static_cast<std::size_t>(p)]) +
                          (ends[static_cast<std::size_t>(p)][at] * scales[static_cast<std::size_t>(p)] -
                           global.weights[at]);
                }
        }
        // directions of Q are followed by u, not by the diagonal
        for (std::int64_t k = first; k < last; ++k) {
            const std::int64_t i = features_[static_cast<std::size_t>(k)];
            const V* product = products.data() + (k - first) * wide;
            V followed{};
            for (int p = 0; p < count; ++p)
                followed = followed * (factors[i * global.classes] * keeps[static_cast<std::size_t>(p)]) + product[p];
            v[static_cast<std::size_t>(i - begin)] += product[count] - followed;
        }
        if (stride_ == 1) {
            V* __restrict to = global.weights + begin;
            V* __restrict kept = before_.data() + begin;
            const V* __restrict by = v.data();
            for (std::int64_t i = 0; i < end - begin; ++i) {
                kept[i] = to[i];
                to[i] += by[i];
            }
            return;
        }
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t at = i * stride_ + c;
            before_[static_cast<std::size_t>(at)] = global.weights[at];
            global.weights[at] += v[static_cast<std::size_t>(i - begin)];
        }
    }

    std::pair<std::int64_t, std::int64_t> places_between(std::int64_t begin, std::int64_t end) const {
        const auto first = std::lower_bound(features_.begin(), features_.end(), begin);
        return {first - features_.begin(), std::lower_bound(first, features_.end(), end) - features_.begin()};
    }

    std::vector<V> multiply_places(Workspace<Rows>& work, int c, std::int64_t first, std::int64_t last) const {
        const Spectrum<V>& spectrum = spectra_[static_cast<std::size_t>(c)];
        std::vector<V> out(static_cast<std::size_t>((last - first) * product_columns()));
        work.kernels.template of_curvature<V>().multiply_rows(spectrum.q(first), last - first, spectrum.columns(),
                                                              products_[static_cast<std::size_t>(c)].data(),
                                                              product_columns(), out.data());
        return out;
    }

    // The intercept of a class by the same chain; `starts`, if there is room for them, gets where each block should
    // have started.
    double merged_intercepts(Workspace<Rows>& work, int c, double* starts) {
        const auto places = static_cast<std::int64_t>(features_.size());
        const int count = static_cast<int>(pieces_.size()), wide = product_columns();
        const double begun = work.model.lanes()[static_cast<std::size_t>(c)].intercept;
        if (!work.spec.rule.fit_intercept) {
            for (int p = 0; p < count && starts != nullptr; ++p) starts[p] = begun;
            return begun;
        }
        const std::vector<V> products = multiply_places(work, c, places, places + 1);
        const double factor_of_it = factor(c, work.rows.features);
        double v = 0.0, d = 0.0;
        for (int p = 0; p < count; ++p) {
            double before = v;
            if (starts != nullptr) {
                before -= (starts[p] - begun) * root_ -
                          static_cast<double>(products[static_cast<std::size_t>(2 * count + p)]);
                starts[p] = begun + d / root_;
            }
            v = before * factor_of_it + intercept_moved(work, p, c) -
                static_cast<double>(products[static_cast<std::size_t>(p)]);
            if (starts != nullptr) d = v + static_cast<double>(products[static_cast<std::size_t>(count + p)]);
        }
        if (starts == nullptr) d = v + static_cast<double>(products[static_cast<std::size_t>(wide - 1)]);
        return begun + d / root_;
    }

    // ---- refinement -------------------------------------------------------------------------------------------------

    template <class Stopped>
    void refine(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.alone([&] { begin_refining(work); });
        follow_chain(member, work, false);
        for (;;) {
            member.alone([&] {
                std::swap(next_, last_);
                std::swap(next_intercepts_, last_intercepts_);
            });
            train_blocks(member, work, 1, stopped);
            if (stop_) return;
            follow_chain(member, work, true);
            member.alone([&] { judge(work); });
            if (!refine_more_) return;
        }
    }

    void begin_refining(const Workspace<Rows>& work) {
        const auto numbers = static_cast<std::size_t>(work.rows.features) * static_cast<std::size_t>(stride_);
        const auto count = pieces_.size();
        while (starts_.size() < count) starts_.emplace_back(numbers);
        if (next_.size() != numbers) next_ = Array<V>(numbers);
        if (last_.size() != numbers) last_ = Array<V>(numbers);
        start_intercepts_.assign(static_cast<std::size_t>(work.model.classes()) * count, 0.0);
        for (int c = 0; c < work.model.classes(); ++c)
            std::fill_n(start_intercepts_.begin() + c * static_cast<std::int64_t>(count), count,
                        work.model.lanes()[static_cast<std::size_t>(c)].intercept);
        sweeps_of_round_ = 0;
        error_ = -1.0;
    }

    // Puts every replica where the chain says that its block should have started, and the end of the chain into next_.
    void follow_chain(Crew::Member& member, Workspace<Rows>& work, bool again) {
        project(member, work, again);
        const ModelView<V> global = work.model.view();
        const int count = static_cast<int>(pieces_.size());
        member.phase(
            finish_slices,
            [&](std::int64_t slice) {
                const std::int64_t begin = slice_begin(slice, global.features),
                                   end = slice_begin(slice + 1, global.features);
                if (factors_stale_) renew_factors(begin, end, global.classes);
                for (int c = 0; c < global.classes; ++c) follow_slice(work, c, begin, end, count, again);
            },
            [&] {
                factors_stale_ = false;
                for (int c = 0; c < global.classes; ++c) {
                    double* starts = start_intercepts_.data() + static_cast<std::int64_t>(c) * count;
                    next_intercepts_[static_cast<std::size_t>(c)] = merged_intercepts(work, c, starts);
                    for (int p = 1; p < count; ++p) {
                        Lane& lane = replicas_[static_cast<std::size_t>(p)]->lanes()[static_cast<std::size_t>(c)];
                        const double loss = lane.loss;
                        lane = global.lanes[c];
                        lane.intercept = starts[p];
                        lane.loss = loss;
                    }
                }
            });
    }

    void follow_slice(Workspace<Rows>& work, int c, std::int64_t begin, std::int64_t end, int count, bool again) {
        const ModelView<V> global = work.model.view();
        const auto [first, last] = places_between(begin, end);
        const std::vector<V> products = multiply_places(work, c, first, last);
        const int wide = product_columns();
        const auto number = static_cast<std::size_t>(end - begin);
        std::vector<V> q(3 * number, V{}), v(number, V{}), d(number, V{});
        for (int p = 0; p < count; ++p) {
            const ModelView<V> own = replicas_[static_cast<std::size_t>(p)]->view();
            V* start = starts_[static_cast<std::size_t>(p)].data();
            const V scale = static_cast<V>(own.lanes[c].scale),
                    keep = static_cast<V>(keep_[static_cast<std::size_t>(c * count + p)]);
            for (std::int64_t k = first; k < last; ++k) {
                const auto i = static_cast<std::size_t>(features_[static_cast<std::size_t>(k)] - begin);
                for (int part = 0; part < 3; ++part)
                    q[static_cast<std::size_t>(part) * number + i] =
                        products[static_cast<std::size_t>((k - first) * wide + part * count + p)];
            }
            for (std::int64_t i = begin; i < end; ++i) {
                const auto here = static_cast<std::size_t>(i - begin);
                const std::int64_t at = i * global.stride + c;
                const V moved = own.weights[at] * scale - global.weights[at];
                const V old = p > 0 && again ? start[at] - global.weights[at] - q[2 * number + here] : V{};
                const V from = v[here] - old;
                const V started = global.weights[at] + d[here];
                v[here] =
                    from * (factors_[static_cast<std::size_t>(i * global.classes + c)] * keep) + (moved - q[here]);
                d[here] = v[here] + q[number + here];
                if (p > 0) start[at] = own.weights[at] = started;
            }
        }
        for (std::int64_t i = begin; i < end; ++i)
            next_[static_cast<std::size_t>(i * global.stride + c)] =
                global.weights[i * global.stride + c] + d[static_cast<std::size_t>(i - begin)];
    }

    // What the last sweep has changed, as a share of the spread of the predictions, and whether to go on.
    void judge(const Workspace<Rows>& work) {
        ++sweeps_of_round_;
        ++sweeps_;
        const int classes = work.model.classes();
        double changed = 0.0, spread = 0.0;
        for (int c = 0; c < classes; ++c) {
            double sum = 0.0, squares = 0.0;
            for (const std::int64_t row : probe_) {
                const double now =
                    score(work.rows, row, next_.data() + c) + next_intercepts_[static_cast<std::size_t>(c)];
                const double before =
                    score(work.rows, row, last_.data() + c) + last_intercepts_[static_cast<std::size_t>(c)];
                changed += (now - before) * (now - before);
                sum += now;
                squares += now * now;
            }
            spread += squares - sum * sum / static_cast<double>(probe_.size());
        }
        const double error = spread > 0.0 || changed > 0.0 ? std::sqrt(changed / spread) : 0.0;
        const int most = static_cast<int>(pieces_.size()) - 1, asked = std::min(asked_, most);
        const bool far = !(error <= 2.0 * tolerance_);
        if (sweeps_of_round_ == 1) error_ = error;
        given_up_ = !std::isfinite(error) ||
                    (checking_ && far && sweeps_of_round_ >= std::max(asked, std::min(most_sweeps, most)) &&
                     sweeps_of_round_ < most);
        refine_more_ = !given_up_ && sweeps_of_round_ < most && (sweeps_of_round_ < asked || (checking_ && far));
    }

    // x·w of class c, whose first weight `weights` points at.
    double score(const Rows& rows, std::int64_t row, const V* weights) const {
        double sum = 0.0;
        if constexpr (Rows::sparse)
            for (auto j = rows.start[row]; j < rows.start[row + 1]; ++j)
                sum += static_cast<double>(weights[static_cast<std::int64_t>(rows.index[j]) * stride_]) *
                       static_cast<double>(rows.value[j]);
        else
            for (std::int64_t j = 0; j < rows.features; ++j)
                sum += static_cast<double>(weights[j * stride_]) *
                       static_cast<double>(rows.value[row * rows.features + j]);
        return sum;
    }

    void commit(Crew::Member& member, Workspace<Rows>& work) {
        const ModelView<V> global = work.model.view();
        member.phase(
            finish_slices,
            [&](std::int64_t slice) {
                if (given_up_) return;
                const std::int64_t begin = slice_begin(slice, global.features) * global.stride,
                                   end = slice_begin(slice + 1, global.features) * global.stride;
                std::copy(global.weights + begin, global.weights + end, before_.data() + begin);
                std::copy(next_.data() + begin, next_.data() + end, global.weights + begin);
            },
            [&] {
                for (int c = 0; c < global.classes && !given_up_; ++c) {
                    before_intercepts_[static_cast<std::size_t>(c)] = global.lanes[c].intercept;
                    global.lanes[c].intercept = next_intercepts_[static_cast<std::size_t>(c)];
                }
            });
    }

    // ---- the net, and the size of the blocks -----------------------------------------------------------------------

    void end_round(Workspace<Rows>& work) {
        const auto count = static_cast<std::int64_t>(pieces_.size());
        const std::int64_t rows = pieces_.back().begin + pieces_.back().rows - at_;
        ++since_check_;
        if (refining_ && given_up_) {
            steer(std::numeric_limits<double>::infinity());
            sequential_until_ = std::max(sequential_until_, rows_done_ + rows);
            suspect_ = false;
            return;
        }
        const double loss = net_loss(work);
        if (!refining_ && !(loss <= harm * net_loss_ + 0.1 * net_scale_)) {
            const ModelView<V> global = work.model.view();
            std::copy_n(before_.data(), global.features * global.stride, global.weights);
            for (int c = 0; c < global.classes; ++c)
                global.lanes[c].intercept = before_intercepts_[static_cast<std::size_t>(c)];
            suspect_ = true;
            ++caught_;
            return;
        }
        suspect_ = false;
        net_loss_ = loss;
        for (int c = 0; c < work.model.classes(); ++c)
            for (std::int64_t p = 0; p < count; ++p)
                work.model.view().lanes[c].loss +=
                    replicas_[static_cast<std::size_t>(p)]->lanes()[static_cast<std::size_t>(c)].loss;
        if (rule_.soft_curvature) follow_drift(work);
        at_ += rows;
        rows_done_ += rows;
        merges_ += count;
        ++rounds_;
        if (checking_) steer(error_);
    }

    void check_next() {
        between_checks_ = fewest_between_checks;
        since_check_ = between_checks_;
    }

    // The blocks of the next rounds, by the error of this one.
    void steer(double error) {
        errors_ += std::isfinite(error) ? error : 1.0;
        ++checks_;
        since_check_ = 0;
        between_checks_ = std::min(2 * between_checks_, most_between_checks);
        if (!adapts_) return;
        if (error < 0.5 * tolerance_) {
            stretch_ = 0;
            if (2 * block_rows_ * width_ <= order_.count()) {
                block_rows_ *= 2;
                check_next();
            }
        } else if (!(error <= tolerance_)) {
            if (block_rows_ / 2 >= least_block_) {
                block_rows_ /= 2;
                check_next();
            } else {
                // such blocks are too small to be worth a round: one thread does better for a while
                stretch_ = std::min<std::int64_t>(std::max<std::int64_t>(2 * stretch_, 16 * width_ * block_rows_),
                                                  order_.count());
                sequential_until_ = rows_done_ + stretch_;
            }
        }
    }

    double net_loss(const Workspace<Rows>& work) {
        const ModelView<V> global = const_cast<Workspace<Rows>&>(work).model.view();
        std::vector<double> y(net_.size()), weight(net_.size());
        work.spec.targets.read(net_.data(), net_.size(), y.data(), weight.data());
        double total = 0.0;
        for (std::size_t i = 0; i < net_.size(); ++i)
            for (int c = 0; c < global.classes; ++c) {
                const double target = global.classes == 1                                                ? y[i]
                                      : y[i] == work.spec.targets.class_ids[static_cast<std::size_t>(c)] ? 1.0
                                                                                                         : -1.0;
                const double p = score(work.rows, net_[i], global.weights + c) + global.lanes[c].intercept;
                total += visit(work.spec.rule.loss, [&](const auto& loss) { return loss.value(p, target); });
            }
        return total / static_cast<double>(net_.size());
    }

    // How far predictions are off for being stale, as soft curvature expects of the next rounds: x·d of the round, of
    // which a block misses about half.
    void follow_drift(Workspace<Rows>& work) {
        const ModelView<V> global = work.model.view();
        for (int c = 0; c < global.classes; ++c) {
            double squares = 0.0;
            for (const std::int64_t row : net_) {
                const double d = score(work.rows, row, global.weights + c) - score(work.rows, row, before_.data() + c) +
                                 global.lanes[c].intercept - before_intercepts_[static_cast<std::size_t>(c)];
                squares += d * d;
            }
            global.lanes[c].drift = 0.5 * std::sqrt(squares / static_cast<double>(net_.size()));
        }
    }

    // ---- the spectrum -----------------------------------------------------------------------------------------------

    void estimate(Crew::Member& member, Workspace<Rows>& work) {
        member.alone([&] { take_sample(work); });
        for (int c = 0; c < work.model.classes(); ++c)
            spectra_[static_cast<std::size_t>(c)].estimate(member, samples_[static_cast<std::size_t>(c)], features_,
                                                           work.kernels.template of_curvature<V>(),
                                                           work.spec.seed + static_cast<std::uint64_t>(c));
        member.alone([&] {
            // the curvature settles as the model does
            next_spectrum_ =
                rows_done_ < order_.count() ? std::max<std::int64_t>(8 * rows_done_, 2048) : 2 * rows_done_;
            factors_stale_ = true;
        });
    }

    // Every so many rows of the order, another set each time.
    std::vector<std::int64_t> spread_rows(std::int64_t wanted, std::int64_t turn) const {
        const std::int64_t count = std::min(wanted, order_.count());
        std::vector<std::int64_t> rows;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t begin = i * order_.count() / count, end = (i + 1) * order_.count() / count;
            rows.push_back(*order_.at(begin + turn * 7919 % (end - begin)));
        }
        return rows;
    }

    template <class F>
    static void for_entries(const Rows& rows, std::int64_t row, F&& f) {
        if constexpr (Rows::sparse)
            for (auto j = rows.start[row]; j < rows.start[row + 1]; ++j)
                f(static_cast<std::int64_t>(rows.index[j]), rows.value[j]);
        else
            for (std::int64_t j = 0; j < rows.features; ++j) f(j, rows.value[row * rows.features + j]);
    }

    void take_sample(Workspace<Rows>& work) {
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        const std::vector<std::int64_t> rows =
            spread_rows(std::clamp<std::int64_t>(sample_entries / mean, 256, 4096), spectra_taken_++);
        if (features_.empty()) choose_features(work, rows);
        const ModelView<V> model = work.model.view();
        const Rule& rule = work.spec.rule;
        std::vector<double> y(rows.size()), weight(rows.size());
        work.spec.targets.read(rows.data(), rows.size(), y.data(), weight.data());
        const double kappa = rule.fit_intercept ? rule.intercept_decay : 0.0;
        for (int c = 0; c < model.classes; ++c) {
            CurvatureSample<V>& sample = samples_[static_cast<std::size_t>(c)];
            sample.start.assign(1, 0);
            sample.place.clear();
            sample.value.clear();
            sample.diagonal.assign(static_cast<std::size_t>(model.features) + 1, 0.0);
            const double step = sum_of_steps(rule.schedule, model.lanes[c].step_size, t_ + static_cast<double>(at_), 1);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                double target = y[i], factor = weight[i];
                if (model.classes > 1) {
                    const bool positive = target == work.spec.targets.class_ids[static_cast<std::size_t>(c)];
                    target = positive ? 1.0 : -1.0;
                    factor *= positive ? work.spec.targets.positive_weight[static_cast<std::size_t>(c)]
                                       : work.spec.targets.negative_weight[static_cast<std::size_t>(c)];
                }
                const double p = score(work.rows, rows[i], model.weights + c) + model.lanes[c].intercept;
                double square = kappa;
                for_entries(work.rows, rows[i],
                            [&](std::int64_t, V x) { square += static_cast<double>(x) * static_cast<double>(x); });
                const double h = curvature(rule, p, target, step * factor * square, model.lanes[c].drift) * factor;
                if (!(h > 0.0) || !std::isfinite(h)) continue;
                const double root = std::sqrt(h / static_cast<double>(rows.size()));
                for_entries(work.rows, rows[i], [&](std::int64_t feature, V x) {
                    const double value = root * static_cast<double>(x);
                    sample.diagonal[static_cast<std::size_t>(feature)] += value * value;
                    const std::int32_t place = places_.size() == 0 ? static_cast<std::int32_t>(feature)
                                                                   : places_[static_cast<std::size_t>(feature)];
                    if (place < 0 || value == 0.0) return;
                    sample.place.push_back(place);
                    sample.value.push_back(static_cast<V>(value));
                });
                if (kappa > 0.0) {
                    sample.place.push_back(static_cast<std::int32_t>(features_.size()));
                    sample.value.push_back(static_cast<V>(root * std::sqrt(kappa)));
                    sample.diagonal.back() += root * root * kappa;
                }
                sample.start.push_back(static_cast<std::int64_t>(sample.place.size()));
            }
        }
    }

    // h, or where the gradient jumps its secant over as far as predictions are off (see soft_response in the kernels).
    static double curvature(const Rule& rule, double p, double y, double reach, double drift) {
        return visit(rule.loss, [&](const auto& loss) {
            if (!rule.soft_curvature) return static_cast<double>(loss.curvature(p, y));
            const double delta = std::max(drift, 0.5 * reach);
            if (!(delta > 0.0)) return 0.0;
            const double slope = (loss.gradient(p + delta, y) - loss.gradient(p - delta, y)) / (2.0 * delta);
            return reach > 0.0 ? std::min(slope, 1.0 / reach) : slope;
        });
    }

    void choose_features(const Workspace<Rows>& work, const std::vector<std::int64_t>& rows) {
        const std::int64_t all = work.rows.features;
        if (all <= most_places_of_q) {
            features_.resize(static_cast<std::size_t>(all));
            std::iota(features_.begin(), features_.end(), std::int64_t{0});
        } else {
            std::vector<std::int32_t> count(static_cast<std::size_t>(all), 0);
            for (const std::int64_t row : rows)
                for_entries(work.rows, row,
                            [&](std::int64_t feature, V) { ++count[static_cast<std::size_t>(feature)]; });
            std::vector<std::int64_t> seen;
            for (std::int64_t i = 0; i < all; ++i)
                if (count[static_cast<std::size_t>(i)] > 0) seen.push_back(i);
            const auto most =
                std::min(static_cast<std::ptrdiff_t>(seen.size()), static_cast<std::ptrdiff_t>(most_places_of_q));
            std::stable_sort(seen.begin(), seen.end(), [&](std::int64_t a, std::int64_t b) {
                return count[static_cast<std::size_t>(a)] > count[static_cast<std::size_t>(b)];
            });
            features_.assign(seen.begin(), seen.begin() + most);
            std::sort(features_.begin(), features_.end());
            places_ = Array<std::int32_t>(static_cast<std::size_t>(all));
            for (std::int64_t i = 0; i < all; ++i) places_[static_cast<std::size_t>(i)] = -1;
            for (std::size_t k = 0; k < features_.size(); ++k)
                places_[static_cast<std::size_t>(features_[k])] = static_cast<std::int32_t>(k);
        }
        const auto places = static_cast<std::int64_t>(features_.size());
        const int rank = work.spec.strategy.k > 0 ? work.spec.strategy.k : places <= 1024 ? 64 : 32;
        for (Spectrum<V>& spectrum : spectra_) spectrum.reset(places, rank);
    }

    // ---- a pass -----------------------------------------------------------------------------------------------------

    void begin_pass(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        order_.write(work, strategy.cores);
        rule_ = work.spec.rule;
        rule_.track_norms = false;
        t_ = work.model.t();
        at_ = merges_ = rounds_ = sweeps_ = checks_ = alone_rows_ = caught_ = 0;
        errors_ = 0.0;
        stop_ = false;
        width_ = strategy.threads;
        asked_ = strategy.refine;
        adapts_ = strategy.block_size == 0;
        tolerance_ = strategy.tolerance;
        fold_scale(work);
        if (width_ == 1) {
            if (block_rows_ == 0) block_rows_ = 1;
            return;
        }
        const std::int64_t share = std::max<std::int64_t>(1, order_.count() / width_);
        if (!adapts_)
            block_rows_ = strategy.block_size;
        else if (block_rows_ == 0)
            block_rows_ = std::min(first_block, share);
        if (seated_classes_ == work.model.classes()) return;
        seat(work);
    }

    void fold_scale(Workspace<Rows>& work) {
        const ModelView<V> model = work.model.view();
        for (int c = 0; c < model.classes; ++c) {
            Lane& lane = model.lanes[c];
            if (lane.scale == 1.0) continue;
            for (std::int64_t i = 0; i < model.features; ++i)
                model.weights[i * model.stride + c] *= static_cast<V>(lane.scale);
            lane.scale = lane.inverse = 1.0;
        }
    }

    void seat(Workspace<Rows>& work) {
        const ModelView<V> model = work.model.view();
        seated_classes_ = model.classes;
        stride_ = model.stride;
        const auto classes = static_cast<std::size_t>(model.classes);
        const auto numbers = static_cast<std::size_t>(model.features) * static_cast<std::size_t>(model.stride);
        replicas_.clear();
        for (std::int64_t p = 0; p < width_; ++p)
            replicas_.push_back(std::make_unique<Model<V>>(model.features, model.classes, ModelNeeds{}));
        starts_.clear();
        before_ = Array<V>(numbers);
        factors_ = Array<V>(static_cast<std::size_t>(model.features) * classes);
        factors_stale_ = true;
        factor_steps_.assign(classes, -1.0);
        before_intercepts_.assign(classes, 0.0);
        next_intercepts_.assign(classes, 0.0);
        last_intercepts_.assign(classes, 0.0);
        root_ = 1.0 / std::sqrt(work.spec.rule.fit_intercept ? work.spec.rule.intercept_decay : 1.0);
        spectra_ = std::vector<Spectrum<V>>(classes);
        samples_.assign(classes, CurvatureSample<V>{});
        products_.assign(classes, {});
        old_u_.assign(classes, {});
        partial_.assign(classes * static_cast<std::size_t>(project_slices), {});
        features_.clear();
        next_spectrum_ = rows_done_;
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        probe_ = spread_rows(probe_rows, 3);
        net_ = spread_rows(std::clamp<std::int64_t>(net_entries / mean, 16, 128), 5);
        net_loss_ = net_scale_ = net_loss(work);
        least_block_ = least_block(work, mean);
        check_next();
    }

    // Rows of a block whose training takes longer than what a thread does to merge it, by a count of what both read and
    // write: below it a round is no faster than one thread. Counted, not measured, so that it is the same in every run.
    std::int64_t least_block(const Workspace<Rows>& work, std::int64_t mean) const {
        const double places = static_cast<double>(std::min(most_places_of_q, work.rows.features)) * 32.0;
        const double merge =
            20000.0 + static_cast<double>(work.rows.features * stride_) * (2.0 + 2.0 / static_cast<double>(width_)) +
            places;
        const double row = 40.0 + 2.5 * static_cast<double>(mean * stride_);
        const double share = static_cast<double>(width_) / 1.25 - 1.0;
        return std::max<std::int64_t>(1, static_cast<std::int64_t>(merge / row / share));
    }

    void report(PassSums& sums) const {
        sums.sweeps = sweeps_;
        sums.rank = spectra_.empty() ? 0 : spectra_.front().rank();
        sums.error = checks_ > 0 ? errors_ / static_cast<double>(checks_) : -1.0;
        sums.alone = alone_rows_;
        sums.caught = caught_;
    }

    WrittenOrder order_;
    Rule rule_;
    std::int64_t width_ = 1;       // blocks a round
    std::int64_t block_rows_ = 0;  // of a block of the next round
    std::int64_t least_block_ = 1;
    bool adapts_ = true;
    double tolerance_ = 0.0;
    int asked_ = 0;  // sweeps in every round
    int stride_ = 1;
    int seated_classes_ = 0;
    double root_ = 1.0;  // 1 / √κ: the intercept counts as a weight of a feature of value √κ

    double t_ = 1.0;
    std::int64_t at_ = 0;         // rows of this pass that are part of the model
    std::int64_t rows_done_ = 0;  // of all passes
    std::int64_t done_ = 0;
    std::int64_t sequential_until_ = 0, stretch_ = 0;
    std::atomic<bool> stop_{false};

    std::vector<Piece> pieces_;  // the blocks of the round under way
    std::vector<double> keep_;   // class by class, of each
    std::vector<double> steps_;  // by class: sum of the step sizes of a block
    std::vector<std::unique_ptr<Model<V>>> replicas_;
    Array<V> before_;  // the model before the last merge
    std::vector<double> before_intercepts_;

    std::vector<Spectrum<V>> spectra_;  // by class
    std::vector<CurvatureSample<V>> samples_;
    std::vector<std::int64_t> features_;  // that Q has rows of, ascending
    Array<std::int32_t> places_;          // of each feature among them, or −1; empty if all are
    std::int64_t next_spectrum_ = 0, spectra_taken_ = 0;
    bool spectrum_due_ = false;
    Array<V> factors_;  // e^{−ac}, features × classes, for these steps:
    std::vector<double> factor_steps_;
    bool factors_stale_ = true;
    std::vector<std::vector<V>> partial_, products_, old_u_;

    bool checking_ = false, refining_ = false, refine_more_ = false, given_up_ = false, suspect_ = false;
    int sweeps_of_round_ = 0, since_check_ = 0, between_checks_ = fewest_between_checks;
    std::vector<Array<V>> starts_;
    std::vector<double> start_intercepts_;  // class by class
    Array<V> next_, last_;                  // what the chain has come to, and before the last sweep
    std::vector<double> next_intercepts_, last_intercepts_;
    double error_ = -1.0;
    std::vector<std::int64_t> probe_, net_;
    double net_loss_ = 0.0, net_scale_ = 0.0;

    std::int64_t merges_ = 0, rounds_ = 0, sweeps_ = 0, checks_ = 0, alone_rows_ = 0, caught_ = 0;
    double errors_ = 0.0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_curvature(const StrategySpec&) {
    return std::make_unique<CurvatureRounds<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_curvature, const StrategySpec&)

}  // namespace symsgd

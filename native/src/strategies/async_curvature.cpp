// Async-SymSGD with the curvature combiner: no thread waits for another.
//
// A free thread takes the next block of the order and trains it on a model of its own, from w₀, where the shared model
// was when it looked last, to S. By then others have moved the shared model by d = w − w₀, and it becomes
//
//     w ← S + M d,     M = keep exp(−aH)      (mean_block.hpp)
//
// as if the block had begun at w; the thread goes on from there. The shared model is kept as a pair, w = Q u + v, and
// with s = S − w₀ the merge is one of single numbers,
//
//     u ← u₀ + Qᵀs + keep e^{−aΛ} ∘ (u − u₀)
//     v ← v₀ + (s − QQᵀs) + keep e^{−ac} ∘ (v − v₀)
//
// so that no lock is held for longer than some numbers take: one for u, and one for each slice of the features for v;
// threads begin at different slices. All products with Q are the thread's own affair.
//
// Now and then a block is *checked*: instead of being merged it is trained again from w, where M assumed to have
// brought it. What that changes is the error of the merge, which steers the size of the blocks (async_control.hpp).
// Where blocks that are worth it have too large an error, one thread goes on alone for a while.
//
// Under it lies a net: the loss of a few rows. A merge that would make it far larger than it is at S, where SGD itself
// has come, is replaced by the mean of S and w, which is no worse than the worse of the two since losses are convex,
// or, if that is no better, by S.
//
// Threads meet when the curvature is estimated, ever more seldom, and at the end of a pass. The result depends on who
// comes first.
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>

#include "async_control.hpp"
#include "async_net.hpp"
#include "decay_clock.hpp"
#include "symsgd/mean_block.hpp"

namespace symsgd {

namespace {

constexpr double harm = 1.5;                // a merge that makes the net's loss so many times larger is not made
constexpr int overtaken = 4;                // merges by each of the others, beyond which a block is trained again
constexpr int most_tries = 3;               // to merge before the model has moved on again
constexpr std::int64_t slice_least = 1024;  // features under one lock
constexpr std::int64_t slices_most = 64;

template <class Rows>
class AsyncCurvature final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        begin_pass(work);
        Crew crew;
        crew.run(threads_, [&](Crew::Member& member) {
            Poll poll(should_stop);
            const auto stopped = [&] {
                if (member.number == 0 && poll()) stop_ = true;
                return stop_.load(std::memory_order_relaxed);
            };
            // what is looked at between phases changes within them alone, so that all threads go the same way
            while (taken_ < order_.count() && !halted_) {
                if (rows_done_ < alone_until_)
                    run_alone(member, work, stopped);
                else
                    run_together(member, work, stopped);
            }
        });
        sums.stopped = stop_;
        sums.rows = rows_;
        sums.merges = merges_;
        sums.sweeps = checks_;
        sums.rank = spectra_.empty() ? 0 : spectra_.front().rank();
        sums.error = checks_ > 0 ? errors_ / static_cast<double>(checks_) : -1.0;
        sums.alone = alone_rows_;
        sums.caught = caught_;
        work.model.set_t(t_ + static_cast<double>(rows_));
    }

private:
    struct Piece {
        std::int64_t begin, rows;
    };
    enum class Verdict : std::uint8_t { merge, check, repeat };
    enum class Way : std::uint8_t { combined, halfway, block };  // S + M d, the mean of S and w, S

    // What of a model is not in v of its features: u by class, and v of the intercepts.
    struct Center {
        std::vector<std::vector<double>> u;
        std::vector<double> intercepts;
    };

    // What a thread has for itself.
    struct Worker {
        Worker(const ModelView<V>& model, std::int64_t first_slice)
            : first_slice(first_slice),
              own(model.features, model.classes, ModelNeeds{}),
              from(static_cast<std::size_t>(model.features * model.stride)),
              blocks(static_cast<std::size_t>(model.classes)),
              in_q(static_cast<std::size_t>(model.classes)) {}

        std::int64_t first_slice;
        Model<V> own;                      // w₀, then S, then v of S
        Array<V> from;                     // v₀
        Center start, end;                 // of w₀ and of S
        std::vector<MeanBlock<V>> blocks;  // by class
        std::vector<std::vector<V>> in_q;  // Q u₀, by class
        std::vector<V> moved;
        NetWeights<V> of_net;
        std::vector<V> now_of_net;
        std::vector<double> start_scores, end_scores, now_scores, next_scores;  // the net's: at w₀, S, w, S + M d
        std::int64_t version = 0, looked = 0;  // merges into the model at w₀, and when `look_ahead` looked
        Slice slice;
    };

    struct Working {
        explicit Working(std::atomic<int>& count) : count(count) { ++count; }
        ~Working() { --count; }
        std::atomic<int>& count;
    };

    // ---- one thread: all there is without others, and what is done where blocks are not worth it

    template <class Stopped>
    void run_alone(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        if (member.number == 0) {  // which is the one that is told to stop
            const std::int64_t rows = std::min(order_.count() - taken_, alone_until_ - rows_done_);
            const auto slice = std::make_unique<Slice>();
            done_ = train(work, work.model, *slice, {taken_, rows}, stopped);
        }
        member.alone([&] {
            taken_ += done_;
            rows_ += done_;
            rows_done_ += done_;
            alone_rows_ += done_;
            halted_ = stop_;
        });
    }

    // Trains rows of the order on a model; returns how many before it was stopped.
    template <class Stopped>
    std::int64_t train(Workspace<Rows>& work, Model<V>& model, Slice& slice, const Piece& piece,
                       const Stopped& stopped) {
        model.set_t(t_ + static_cast<double>(piece.begin));
        ModelView<V> view = model.view();
        const std::int64_t rows = slice_rows(work.rows, view.stride);
        std::int64_t at = 0;
        for (; at < piece.rows && !stopped(); at += rows) {
            const std::int64_t count = std::min(rows, piece.rows - at);
            const std::int64_t* order = order_.at(piece.begin + at);
            const Block block = slice.read(work, order, order, static_cast<std::size_t>(count),
                                           static_cast<std::size_t>(order_.count() - piece.begin - at));
            work.kernels.template of_rows<Rows>().learn(work.rows, block, rule_, view);
        }
        work.kernels.template of_models<V>().finish_pass(rule_, view);
        return std::min(at, piece.rows);
    }

    // ---- all threads, until the curvature is due again

    template <class Stopped>
    void run_together(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        if (rows_done_ >= next_estimate_) estimate(member, work);
        member.alone([&] { share(work); });
        try {
            run_blocks(work, *workers_[static_cast<std::size_t>(member.number)], stopped);
        } catch (...) {
            stop_ = true;
            throw;
        }
        // the thread that is told to stop goes on listening
        if (member.number == 0) wait_until([&] { return stopped() || working_ == 0; });
        member.alone([&] { unshare(work); });
    }

    template <class Stopped>
    void run_blocks(Workspace<Rows>& work, Worker& worker, const Stopped& stopped) {
        const Working working(working_);
        pull(work, worker);
        Piece piece;
        while (!stopped() && take(piece))
            if (!run_block(work, worker, piece, stopped)) stop_ = true;
    }

    void estimate(Crew::Member& member, Workspace<Rows>& work) {
        for (int c = 0; c < work.model.classes(); ++c) {
            const auto lane = static_cast<std::size_t>(c);
            const double step =
                sum_of_steps(rule_.schedule, work.model.lanes()[lane].step_size, t_ + static_cast<double>(taken_), 1);
            sampler_.take(member, work, order_, estimates_, c, step, sample_);
            spectra_[lane].estimate(member, sample_, sampler_.features(), work.kernels.template of_curvature<V>(),
                                    work.spec.seed + static_cast<std::uint64_t>(c));
        }
        member.alone([&] {
            for (std::size_t c = 0; c < spectra_.size(); ++c) net_.turn_to(spectra_[c], sampler_.features(), root_, c);
            ++estimates_;
            // the curvature settles as the model does; where gradients jump there is none to be seen before the first
            // merges have shown how far predictions are off
            const std::int64_t soon = rule_.soft_curvature ? 512 : 16384;
            next_estimate_ = std::max(4 * rows_done_, std::min(soon, order_.count()));
        });
    }

    // All of the model is v, and u is 0.
    void share(Workspace<Rows>& work) {
        const ModelView<V> model = work.model.view();
        fold_scales(model, 1);
        center_ = {};
        for (int c = 0; c < model.classes; ++c) {
            center_.u.emplace_back(static_cast<std::size_t>(spectra_[static_cast<std::size_t>(c)].columns()), 0.0);
            center_.intercepts.push_back(model.lanes[c].intercept);
        }
        losses_.assign(static_cast<std::size_t>(model.classes), 0.0);
        meet_ = false;
    }

    // The model is v + Q u again.
    void unshare(Workspace<Rows>& work) {
        const ModelView<V> model = work.model.view();
        std::vector<V> in_q;
        for (int c = 0; c < model.classes; ++c) {
            const auto lane = static_cast<std::size_t>(c);
            multiply_q(work, lane, center_.u[lane], in_q);
            add_to_places(model, c, in_q, V{1});
            model.lanes[c].intercept = center_.intercepts[lane] + static_cast<double>(in_q.back()) / root_;
            model.lanes[c].loss += losses_[lane];
            // a block misses half of what it finds the model moved by
            model.lanes[c].drift = 0.5 * std::sqrt(squares_[lane]);
        }
        halted_ = stop_;
    }

    void multiply_q(const Workspace<Rows>& work, std::size_t c, const std::vector<double>& u,
                    std::vector<V>& out) const {
        out.resize(sampler_.features().size() + 1);
        from_directions(spectra_[c], work.kernels.template of_curvature<V>(), u, out);
    }

    void add_to_places(const ModelView<V>& model, int c, const std::vector<V>& numbers, V factor) const {
        const std::vector<std::int64_t>& features = sampler_.features();
        for (std::size_t k = 0; k < features.size(); ++k)
            model.weights[features[k] * model.stride + c] += factor * numbers[k];
    }

    bool take(Piece& piece) {
        const std::lock_guard lock(merging_);
        if (meet_ || taken_ >= order_.count()) return false;
        piece.begin = taken_;
        piece.rows = control_.block(order_.count() - taken_);
        taken_ += piece.rows;
        if (rows_done_ + taken_ - rows_ >= next_estimate_) meet_ = true;
        return true;
    }

    template <class Stopped>
    bool run_block(Workspace<Rows>& work, Worker& worker, const Piece& piece, const Stopped& stopped) {
        if (!train_own(work, worker, piece, stopped)) return false;
        std::vector<double> assumed;
        bool checking = false;
        for (int left = most_tries;; --left) {
            const Verdict verdict = judge(worker, piece);
            const Way way = look_ahead(work, worker);
            if (verdict == Verdict::merge || left == 0) {
                if (merge(work, worker, piece, way, left > 0)) break;
                continue;
            }
            // a check that is overtaken itself says nothing
            if (checking) give_up_check();
            checking = verdict == Verdict::check;
            assumed = worker.next_scores;
            pull(work, worker);
            if (!train_own(work, worker, piece, stopped)) return false;
        }
        if (!checking) return true;
        const double error = net_.difference(assumed, worker.end_scores);
        const std::lock_guard lock(merging_);
        ++checks_;
        errors_ += std::isfinite(error) ? error : 1.0;
        if (control_.steer(error, rows_done_)) leave_to_one();
        return true;
    }

    void give_up_check() {
        const std::lock_guard lock(merging_);
        control_.give_up_check();
    }

    // Whether a block that has ended is to be merged, or trained again from where the model is now: to see what that
    // changes, or because others have gone far ahead meanwhile.
    Verdict judge(const Worker& worker, const Piece& piece) {
        const std::lock_guard lock(merging_);
        const std::int64_t others = version_ - worker.version;
        if (others > overtaken * (threads_ - 1)) return Verdict::repeat;
        if (others == 0) return Verdict::merge;
        usual_ += (static_cast<double>(others) - usual_) / 16.0;
        if (static_cast<double>(others) < 0.5 * usual_ || !control_.begin_check(piece.rows)) return Verdict::merge;
        return Verdict::check;
    }

    // From where the worker's model stands, w₀, to S.
    template <class Stopped>
    bool train_own(Workspace<Rows>& work, Worker& worker, const Piece& piece, const Stopped& stopped) {
        for (Lane& lane : worker.own.lanes()) {
            lane.loss = 0.0;
            lane.likelihood = 1.0;
        }
        if (train(work, worker.own, worker.slice, piece, stopped) < piece.rows) return false;
        worker.end_scores.clear();
        for (int c = 0; c < work.model.classes(); ++c) split_end(work, worker, piece, c);
        return true;
    }

    // S = Q u + v of one class: the worker's model becomes v.
    void split_end(Workspace<Rows>& work, Worker& worker, const Piece& piece, int c) {
        const auto lane = static_cast<std::size_t>(c);
        const ModelView<V> own = worker.own.view();
        const Rule& rule = work.spec.rule;
        const double t = t_ + static_cast<double>(piece.begin), size = own.lanes[c].step_size;
        const BlockSteps steps{sum_of_steps(rule.schedule, size, t, piece.rows),
                               product_of_decays(rule.schedule, size, rule.penalty.l2, t, piece.rows)};
        worker.blocks[lane].renew(spectra_[lane], estimates_, own.features, steps);
        read_own(worker, c);
        net_.predict(worker.of_net, nullptr, lane, worker.end_scores);

        const std::vector<std::int64_t>& features = sampler_.features();
        const V scale = static_cast<V>(own.lanes[c].scale);
        std::vector<V>& moved = worker.moved;
        moved.resize(features.size() + 1);
        for (std::size_t k = 0; k < features.size(); ++k) {
            const std::int64_t at = features[k] * own.stride + c;
            moved[k] = own.weights[at] * scale - worker.from[static_cast<std::size_t>(at)] - worker.in_q[lane][k];
        }
        moved.back() =
            static_cast<V>((own.lanes[c].intercept - worker.start.intercepts[lane]) * root_) - worker.in_q[lane].back();
        std::vector<double>& u = worker.end.u[lane];
        to_directions(spectra_[lane], work.kernels.template of_curvature<V>(), moved, u);
        for (std::size_t j = 0; j < u.size(); ++j) u[j] += worker.start.u[lane][j];
        multiply_q(work, lane, u, moved);
        add_to_places(own, c, moved, -static_cast<V>(own.lanes[c].inverse));
        worker.end.intercepts[lane] = own.lanes[c].intercept - static_cast<double>(moved.back()) / root_;
    }

    // The worker's model, as far as the net needs it.
    void read_own(Worker& worker, int c) const {
        const ModelView<V> own = worker.own.view();
        worker.of_net.intercept = own.lanes[c].intercept;
        worker.of_net.weights.clear();
        for (const std::int64_t feature : net_.features())
            worker.of_net.weights.push_back(own.weights[feature * own.stride + c] * static_cast<V>(own.lanes[c].scale));
    }

    // ---- the merge

    static double merged(double end, double now, double start, double factor, Way way) {
        if (way == Way::block) return end;
        if (way == Way::halfway) return 0.5 * (end + now);
        return end + factor * (now - start);
    }

    double merged_u(const Worker& worker, std::size_t c, std::size_t j, double now, Way way) const {
        const MeanBlock<V>& block = worker.blocks[c];
        return merged(worker.end.u[c][j], now, worker.start.u[c][j], block.keep() * block.sharp(j), way);
    }

    double merged_intercept(const Worker& worker, std::size_t c, double now, Way way) const {
        const double factor = static_cast<double>(worker.blocks[c].flat()[worker.own.features()]);
        return merged(worker.end.intercepts[c], now, worker.start.intercepts[c], factor, way);
    }

    // What the net says of a merge now. Leaves in next_scores the predictions that it would lead to.
    Way look_ahead(Workspace<Rows>& work, Worker& worker) {
        Center now;
        worker.now_scores.clear();
        worker.next_scores = worker.end_scores;
        {
            const std::lock_guard lock(merging_);
            worker.looked = version_;
            if (version_ == worker.version) return Way::combined;  // with what nobody has changed
            now = center_;
        }
        worker.next_scores.clear();
        const ModelView<V> own = worker.own.view();
        for (std::size_t c = 0; c < now.u.size(); ++c) {
            read_shared(work, worker, static_cast<int>(c));
            worker.of_net.weights = worker.now_of_net;
            worker.of_net.intercept = now.intercepts[c];
            net_.predict(worker.of_net, &now.u[c], c, worker.now_scores);
            const V scale = static_cast<V>(own.lanes[c].scale), keep = static_cast<V>(worker.blocks[c].keep());
            for (std::size_t k = 0; k < net_.features().size(); ++k) {
                const std::int64_t feature = net_.features()[k], at = feature * own.stride + static_cast<int>(c);
                const V moved = worker.now_of_net[k] - worker.from[static_cast<std::size_t>(at)];
                worker.of_net.weights[k] = own.weights[at] * scale + keep * worker.blocks[c].flat()[feature] * moved;
            }
            worker.of_net.intercept = merged_intercept(worker, c, now.intercepts[c], Way::combined);
            for (std::size_t j = 0; j < now.u[c].size(); ++j)
                now.u[c][j] = merged_u(worker, c, j, now.u[c][j], Way::combined);
            net_.predict(worker.of_net, &now.u[c], c, worker.next_scores);
        }
        const double allowed = harm * net_.loss(rule_, worker.end_scores) + 0.05 * scale_;
        if (net_.loss(rule_, worker.next_scores) <= allowed) return Way::combined;
        std::vector<double> half = worker.now_scores;
        for (std::size_t i = 0; i < half.size(); ++i) half[i] = 0.5 * (half[i] + worker.end_scores[i]);
        return net_.loss(rule_, half) <= allowed ? Way::halfway : Way::block;
    }

    // v of the net's features as it is now.
    void read_shared(Workspace<Rows>& work, Worker& worker, int c) {
        const ModelView<V> shared = work.model.view();
        const std::vector<std::int64_t>& features = net_.features();
        worker.now_of_net.resize(features.size());
        std::size_t k = 0;
        for (std::int64_t slice = 0; slice < slices_ && k < features.size(); ++slice) {
            const std::int64_t end = slice_begin(slice + 1, shared.features);
            if (features[k] >= end) continue;
            const std::lock_guard lock(slice_locks_[static_cast<std::size_t>(slice)]);
            for (; k < features.size() && features[k] < end; ++k)
                worker.now_of_net[k] = shared.weights[features[k] * shared.stride + c];
        }
    }

    // False, and nothing is done, if the model has moved on too far since the worker looked and it may look again.
    bool merge(Workspace<Rows>& work, Worker& worker, const Piece& piece, Way way, bool may_look_again) {
        {
            const std::lock_guard lock(merging_);
            if (may_look_again && version_ - worker.looked > threads_) return false;
            follow_drift(worker);
            for (std::size_t c = 0; c < center_.u.size(); ++c) {
                for (std::size_t j = 0; j < center_.u[c].size(); ++j)
                    center_.u[c][j] = merged_u(worker, c, j, center_.u[c][j], way);
                center_.intercepts[c] = merged_intercept(worker, c, center_.intercepts[c], way);
                losses_[c] += worker.own.lanes()[c].loss;
            }
            worker.start = center_;
            worker.version = ++version_;
            ++merges_;
            rows_ += piece.rows;
            rows_done_ += piece.rows;
            control_.merged();
            if (way != Way::combined) {
                ++caught_;
                if (control_.shrink(rows_done_)) leave_to_one();
            }
        }
        if (way == Way::block)
            sweep(work, worker, [](V end, V, V, V) { return end; });
        else if (way == Way::halfway)
            sweep(work, worker, [](V end, V now, V, V) { return V{0.5} * (end + now); });
        else
            sweep(work, worker, [](V end, V now, V start, V factor) { return end + factor * (now - start); });
        begin_from_start(work, worker);
        return true;
    }

    void pull(Workspace<Rows>& work, Worker& worker) {
        {
            const std::lock_guard lock(merging_);
            worker.start = center_;
            worker.version = version_;
        }
        worker.end = worker.start;
        for (std::size_t c = 0; c < worker.start.u.size(); ++c) {
            worker.own.lanes()[c].step_size = work.model.lanes()[c].step_size;
            if (worker.blocks[c].flat() == nullptr) worker.blocks[c].renew(spectra_[c], -1, worker.own.features(), {});
        }
        sweep(work, worker, [](V, V now, V, V) { return now; });
        begin_from_start(work, worker);
    }

    // The worker's model, so far v, becomes v + Q u.
    void begin_from_start(Workspace<Rows>& work, Worker& worker) {
        const ModelView<V> own = worker.own.view();
        worker.start_scores.clear();
        for (int c = 0; c < own.classes; ++c) {
            const auto lane = static_cast<std::size_t>(c);
            own.lanes[c].scale = own.lanes[c].inverse = 1.0;
            multiply_q(work, lane, worker.start.u[lane], worker.in_q[lane]);
            add_to_places(own, c, worker.in_q[lane], V{1});
            own.lanes[c].intercept =
                worker.start.intercepts[lane] + static_cast<double>(worker.in_q[lane].back()) / root_;
            if (!rule_.soft_curvature) continue;
            read_own(worker, c);
            net_.predict(worker.of_net, nullptr, lane, worker.start_scores);
        }
    }

    // Puts merged(v at S, v, v₀, keep × e^{−ac}) in the place of all three.
    template <class Merged>
    void sweep(Workspace<Rows>& work, Worker& worker, const Merged& merged) {
        const ModelView<V> shared = work.model.view(), own = worker.own.view();
        for (std::int64_t turn = 0; turn < slices_; ++turn) {
            const std::int64_t slice = (turn + worker.first_slice) % slices_;
            const std::int64_t begin = slice_begin(slice, shared.features);
            const std::int64_t end = slice_begin(slice + 1, shared.features);
            const std::lock_guard lock(slice_locks_[static_cast<std::size_t>(slice)]);
            for (int c = 0; c < shared.classes; ++c) {
                const MeanBlock<V>& block = worker.blocks[static_cast<std::size_t>(c)];
                const V scale = static_cast<V>(own.lanes[c].scale), keep = static_cast<V>(block.keep());
                V* __restrict to = shared.weights + c;
                V* __restrict from = worker.from.data() + c;
                V* __restrict mine = own.weights + c;
                const V* __restrict flat = block.flat();
                const auto all = [&](auto stride) {
                    for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t at = i * stride;
                        to[at] = from[at] = mine[at] = merged(mine[at] * scale, to[at], from[at], keep * flat[i]);
                    }
                };
                if (shared.stride == 1)
                    all(std::integral_constant<std::int64_t, 1>{});
                else
                    all(static_cast<std::int64_t>(shared.stride));
            }
        }
    }

    std::int64_t slice_begin(std::int64_t slice, std::int64_t features) const { return slice * features / slices_; }

    // How far predictions of the net are off for being stale, as soft curvature expects it of the next blocks: the mean
    // square of the last merges, each counting half as much as the one after it. Under the lock.
    void follow_drift(const Worker& worker) {
        if (!rule_.soft_curvature || worker.now_scores.empty()) return;
        for (std::size_t c = 0; c < squares_.size(); ++c) {
            const double square = net_.mean_square(worker.start_scores, worker.now_scores, c);
            if (std::isfinite(square)) squares_[c] += 0.5 * (square - squares_[c]);
        }
    }

    void leave_to_one() {
        alone_until_ = control_.alone_until();
        meet_ = true;
    }

    // ---- a pass

    void begin_pass(Workspace<Rows>& work) {
        threads_ = work.spec.strategy.threads;
        order_.write(work, threads_);
        rule_ = work.spec.rule;
        rule_.track_norms = false;
        t_ = work.model.t();
        taken_ = rows_ = merges_ = checks_ = alone_rows_ = caught_ = 0;
        errors_ = 0.0;
        stop_ = halted_ = false;
        control_.give_up_check();
        if (threads_ == 1) alone_until_ = std::numeric_limits<std::int64_t>::max();
        if (threads_ > 1 && order_.count() > 0 && seated_classes_ != work.model.classes()) seat(work);
    }

    void seat(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        const ModelView<V> model = work.model.view();
        const auto classes = static_cast<std::size_t>(model.classes);
        seated_classes_ = model.classes;
        root_ = 1.0 / std::sqrt(rule_.fit_intercept ? rule_.intercept_decay : 1.0);
        sampler_.choose_features(work.rows, nullptr, order_, strategy.places, threads_);
        net_.choose(work, order_);
        scale_ = loss_at_start(work);
        const auto places = static_cast<std::int64_t>(sampler_.features().size());
        const int rank = strategy.k > 0 ? strategy.k : places <= 1024 ? 64 : 32;
        spectra_ = std::vector<Spectrum<V>>(classes);
        for (Spectrum<V>& spectrum : spectra_) spectrum.reset(places, rank);
        next_estimate_ = rows_done_;
        squares_.assign(classes, 0.0);
        slices_ = std::clamp<std::int64_t>(model.features / slice_least, 1, slices_most);
        slice_locks_ = std::make_unique<std::mutex[]>(static_cast<std::size_t>(slices_));
        workers_.clear();
        for (std::int64_t i = 0; i < threads_; ++i)
            workers_.push_back(std::make_unique<Worker>(model, i * slices_ / threads_));
        const std::int64_t least = least_block(work, rank);
        control_.begin(strategy.block_size, least, std::min(order_.count() / (2 * threads_), 32 * least),
                       strategy.tolerance, threads_, strategy.refine != 0);
    }

    double loss_at_start(Workspace<Rows>& work) const {
        const ModelView<V> model = work.model.view();
        std::vector<double> scores;
        for (int c = 0; c < model.classes; ++c) {
            NetWeights<V> weights{{}, model.lanes[c].intercept};
            for (const std::int64_t feature : net_.features())
                weights.weights.push_back(model.weights[feature * model.stride + c] *
                                          static_cast<V>(model.lanes[c].scale));
            net_.predict(weights, nullptr, static_cast<std::size_t>(c), scores);
        }
        return net_.loss(rule_, scores);
    }

    // Rows of a block with which threads are a quarter faster than one, by a count of nanoseconds for what training and
    // merging read and write.
    std::int64_t least_block(const Workspace<Rows>& work, int rank) const {
        const auto classes = static_cast<double>(work.model.classes());
        const auto stride = static_cast<double>(workers_.front()->own.view().stride);
        const auto features = static_cast<double>(work.rows.features);
        const auto places = static_cast<double>(sampler_.features().size());
        const double products = places * (3.0 * rank / 8.0 + 6.0);
        const double net = 3.0 * static_cast<double>(net_.entries() + net_.features().size());
        const double merge = 3000.0 + classes * (products + net) + 1.5 * features * stride;
        const double mean = static_cast<double>(entries_of(work.rows)) / static_cast<double>(work.rows.rows);
        const double row = 40.0 + 1.4 * mean * stride;
        return 1 + static_cast<std::int64_t>(1.25 * merge / (threads_ - 1.25) / row);
    }

    WrittenOrder order_;
    Rule rule_;
    int threads_ = 1, seated_classes_ = 0;
    double t_ = 1.0;
    double root_ = 1.0;  // 1 / √κ: the intercept counts as a weight of a feature of value √κ

    CurvatureSampler<Rows> sampler_;
    CurvatureSample<V> sample_;
    std::vector<Spectrum<V>> spectra_;  // by class
    std::int64_t estimates_ = 0, next_estimate_ = 0;
    Net<Rows> net_;
    double scale_ = 0.0;  // the net's loss at the start
    std::vector<std::unique_ptr<Worker>> workers_;

    std::atomic<bool> stop_{false};
    std::atomic<int> working_{0};
    bool halted_ = false;
    std::int64_t done_ = 0, alone_rows_ = 0;

    // v of the features is in the model itself, each slice under its lock
    std::int64_t slices_ = 1;
    std::unique_ptr<std::mutex[]> slice_locks_;

    std::mutex merging_;  // of all that follows
    Center center_;
    std::int64_t version_ = 0;
    double usual_ = 1.0;  // merges by others that a block finds, where there are any
    AsyncControl control_;
    bool meet_ = false;                               // nobody takes another block
    std::int64_t rows_done_ = 0, alone_until_ = 0;    // rows of all passes
    std::int64_t taken_ = 0, rows_ = 0, merges_ = 0;  // of this pass
    std::int64_t checks_ = 0, caught_ = 0;
    std::vector<double> losses_, squares_;
    double errors_ = 0.0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_async_curvature(const StrategySpec&) {
    return std::make_unique<AsyncCurvature<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_async_curvature, const StrategySpec&)

}  // namespace symsgd

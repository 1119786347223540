// Async-SymSGD with the curvature combiner: no thread waits for another.
//
// A free thread takes the next block of the order and trains it on a model of its own, from w₀, where the shared model
// was when it looked last, to S. By then others have moved the shared model by d = w − w₀, and it becomes
//
//     w ← S + M d,     M = K exp(−aH)      (mean_block.hpp)
//
// as if the block had begun at w; the thread goes on from there. M couples the features of the *head* (async_head.hpp)
// alone: these are merged at once, under one lock, held for some ten microseconds. All others, the *tail*, are merged
// one by one, w_i ← S_i + keep e^{−ac_i} d_i, in slices under locks of their own; threads begin at different slices.
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

#include "async_control.hpp"
#include "async_head.hpp"
#include "decay_clock.hpp"
#include "symsgd/mean_block.hpp"

namespace symsgd {

namespace {

constexpr double harm = 1.5;                // a merge that makes the net's loss so many times larger is not made
constexpr int overtaken = 4;                // merges by each of the others, beyond which a block is trained again
constexpr std::int64_t slice_least = 4096;  // features of the tail under one lock
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

    // What a thread has for itself.
    struct Worker {
        Worker(const ModelView<V>& model, bool tail, std::int64_t first_slice)
            : first_slice(first_slice),
              own(model.features, model.classes, ModelNeeds{}),
              from(tail ? static_cast<std::size_t>(model.features * model.stride) : 0),
              factors(tail ? static_cast<std::size_t>(model.features * model.classes) : 0),
              blocks(static_cast<std::size_t>(model.classes)) {}

        std::int64_t first_slice;
        Model<V> own;
        Array<V> from;                  // w₀ of the tail
        Array<V> factors;               // e^{−ac} of the tail, 0 in the place of the head
        HeadModel<V> start, end, next;  // of the head: w₀, S, and what the merge makes of it
        std::vector<double> start_scores, end_scores, next_scores;
        std::vector<MeanBlock<V>> blocks;  // by class
        std::vector<V> change;
        std::int64_t version = 0;  // merges into the model when w₀ was taken
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
            const Block block = slice.read(work.spec.targets, order, order, static_cast<std::size_t>(count),
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
        Worker& worker = *workers_[static_cast<std::size_t>(member.number)];
        pull(work, worker);
        {
            const Working working(working_);
            Piece piece;
            while (!stopped() && take(piece))
                if (!run_block(work, worker, piece, stopped)) stop_ = true;
        }
        // the thread that is told to stop goes on listening
        if (member.number == 0) wait_until([&] { return stopped() || working_ == 0; });
        member.alone([&] { unshare(work); });
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
            ++estimates_;
            // the curvature settles as the model does; where gradients jump there is none to be seen before the first
            // merges have shown how far predictions are off
            const std::int64_t soon = rule_.soft_curvature ? 512 : 16384;
            next_estimate_ = std::max(4 * rows_done_, std::min(soon, order_.count()));
        });
    }

    // The head leaves the model for the time that threads merge into it.
    void share(Workspace<Rows>& work) {
        fold_scales(work.model.view(), 1);
        head_.read(work.model.view(), shared_);
        head_.predict(shared_, scores_);
        if (!(scale_ >= 0.0)) scale_ = head_.loss(rule_, scores_);
        losses_.assign(static_cast<std::size_t>(work.model.classes()), 0.0);
        meet_ = false;
    }

    void unshare(Workspace<Rows>& work) {
        head_.write(shared_, work.model.view());
        for (std::size_t c = 0; c < losses_.size(); ++c) {
            work.model.lanes()[c].loss += losses_[c];
            // a block misses half of what it finds the model moved by
            work.model.lanes()[c].drift = 0.5 * std::sqrt(squares_[c]);
        }
        halted_ = stop_;
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
        const Verdict verdict = judge(work, worker, piece);
        const std::vector<double> assumed = worker.next_scores;
        if (verdict != Verdict::merge) {
            pull(work, worker);
            if (!train_own(work, worker, piece, stopped)) return false;
        }
        const double error = verdict == Verdict::check ? difference(assumed, worker.end_scores) : 0.0;
        merge(work, worker, piece);
        if (verdict != Verdict::check) return true;
        const std::lock_guard lock(merging_);
        ++checks_;
        errors_ += std::isfinite(error) ? error : 1.0;
        if (control_.steer(error, rows_done_)) leave_to_one();
        return true;
    }

    // Whether a block that has ended is to be merged, or trained again from where the model is now: to see what that
    // changes (next_scores are then what a merge would have made), or because others have gone far ahead meanwhile.
    Verdict judge(Workspace<Rows>& work, Worker& worker, const Piece& piece) {
        const std::lock_guard lock(merging_);
        const std::int64_t others = version_ - worker.version;
        if (others > overtaken * (threads_ - 1)) return Verdict::repeat;
        if (others == 0) return Verdict::merge;
        usual_ += (static_cast<double>(others) - usual_) / 16.0;
        if (static_cast<double>(others) < 0.5 * usual_ || !control_.begin_check(piece.rows)) return Verdict::merge;
        propose(work, worker);
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
        head_.read(worker.own.view(), worker.end);
        head_.predict(worker.end, worker.end_scores);
        const Rule& rule = work.spec.rule;
        for (int c = 0; c < work.model.classes(); ++c) {
            const auto lane = static_cast<std::size_t>(c);
            const double size = worker.own.lanes()[lane].step_size, t = t_ + static_cast<double>(piece.begin);
            const BlockSteps steps{sum_of_steps(rule.schedule, size, t, piece.rows),
                                   product_of_decays(rule.schedule, size, rule.penalty.l2, t, piece.rows)};
            MeanBlock<V>& block = worker.blocks[lane];
            if (block.renew(spectra_[lane], estimates_, head_.features(), head_.places(), steps) && tail_)
                renew_tail(worker, c, work.model.classes());
        }
        return true;
    }

    void renew_tail(Worker& worker, int c, int classes) {
        const auto lane = static_cast<std::size_t>(c);
        V* factors = worker.factors.data() + c;
        const auto features = static_cast<std::int64_t>(worker.own.features());
        for (std::int64_t i = 0; i < features; ++i)
            factors[i * classes] = worker.blocks[lane].factor(spectra_[lane], i);
        for (const std::int64_t feature : head_.features())
            if (feature < features) factors[feature * classes] = V{};
    }

    // What changed between two sets of predictions, as a share of the spread of the second.
    double difference(const std::vector<double>& before, const std::vector<double>& after) const {
        const std::size_t rows = head_.common_rows();
        double changed = 0.0, spread = 0.0;
        for (std::size_t first = 0; first < after.size(); first += head_.net_rows()) {
            double sum = 0.0, squares = 0.0;
            for (std::size_t i = first; i < first + rows; ++i) {
                changed += (after[i] - before[i]) * (after[i] - before[i]);
                sum += after[i];
                squares += after[i] * after[i];
            }
            // where all predictions are alike, their size is what there is to compare with
            spread += std::max(squares - sum * sum / static_cast<double>(rows), 1e-4 * squares);
        }
        return changed > 0.0 || !(changed <= 0.0) ? std::sqrt(changed / spread) : 0.0;
    }

    // ---- the merge

    // The head as the merge would have it; under the lock.
    void propose(const Workspace<Rows>& work, Worker& worker) {
        worker.next.resize(shared_.size());
        for (std::size_t c = 0; c < shared_.size(); ++c) {
            const HeadWeights<V>&now = shared_[c], &start = worker.start[c], &end = worker.end[c];
            const auto intercept = static_cast<std::size_t>(head_.places());
            worker.change.resize(head_.size());
            for (std::size_t k = 0; k < head_.size(); ++k) worker.change[k] = now.weights[k] - start.weights[k];
            worker.change[intercept] = static_cast<V>((now.intercept - start.intercept) * root_);
            worker.blocks[c].apply(spectra_[c], work.kernels.template of_curvature<V>(), worker.change);
            HeadWeights<V>& next = worker.next[c];
            next.weights.resize(head_.size());
            for (std::size_t k = 0; k < head_.size(); ++k) next.weights[k] = end.weights[k] + worker.change[k];
            next.intercept = end.intercept + static_cast<double>(worker.change[intercept]) / root_;
        }
        head_.predict(worker.next, worker.next_scores);
    }

    bool harmful(const Worker& worker) const {
        return !(head_.loss(rule_, worker.next_scores) <= harm * head_.loss(rule_, worker.end_scores) + 0.05 * scale_);
    }

    void halve_the_difference(Worker& worker) const {
        for (std::size_t c = 0; c < shared_.size(); ++c) {
            const HeadWeights<V>&now = shared_[c], &end = worker.end[c];
            for (std::size_t k = 0; k < head_.size(); ++k)
                worker.next[c].weights[k] = V{0.5} * (now.weights[k] + end.weights[k]);
            worker.next[c].intercept = 0.5 * (now.intercept + end.intercept);
        }
        for (std::size_t i = 0; i < scores_.size(); ++i)
            worker.next_scores[i] = 0.5 * (scores_[i] + worker.end_scores[i]);
    }

    void merge(Workspace<Rows>& work, Worker& worker, const Piece& piece) {
        bool half = false, end_alone = false;
        {
            const std::lock_guard lock(merging_);
            propose(work, worker);
            follow_drift(worker);
            if (harmful(worker)) {
                ++caught_;
                half = true;
                halve_the_difference(worker);
                if (harmful(worker)) {
                    end_alone = true;
                    worker.next = worker.end;
                    worker.next_scores = worker.end_scores;
                }
                if (control_.shrink(rows_done_)) leave_to_one();
            }
            shared_ = worker.next;
            scores_ = worker.next_scores;
            worker.version = ++version_;
            for (std::size_t c = 0; c < losses_.size(); ++c) losses_[c] += worker.own.lanes()[c].loss;
            ++merges_;
            rows_ += piece.rows;
            rows_done_ += piece.rows;
            control_.merged();
        }
        worker.start.swap(worker.next);
        worker.start_scores.swap(worker.next_scores);
        if (end_alone)
            sweep_tail(work, worker, [](V end, V, V, V) { return end; });
        else if (half)
            sweep_tail(work, worker, [](V end, V now, V, V) { return V{0.5} * (end + now); });
        else
            sweep_tail(work, worker, [](V end, V now, V start, V factor) { return end + factor * (now - start); });
        begin_from_start(worker);
    }

    void pull(Workspace<Rows>& work, Worker& worker) {
        {
            const std::lock_guard lock(merging_);
            worker.start = shared_;
            worker.start_scores = scores_;
            worker.version = version_;
        }
        for (std::size_t c = 0; c < shared_.size(); ++c)
            worker.own.lanes()[c].step_size = work.model.lanes()[c].step_size;
        sweep_tail(work, worker, [](V, V now, V, V) { return now; });
        begin_from_start(worker);
    }

    void begin_from_start(Worker& worker) {
        for (Lane& lane : worker.own.lanes()) lane.scale = lane.inverse = 1.0;
        head_.write(worker.start, worker.own.view());
    }

    // Puts merged(S, w, w₀, keep × factor) in the place of all three, for the features of the tail.
    template <class Merged>
    void sweep_tail(Workspace<Rows>& work, Worker& worker, const Merged& merged) {
        if (!tail_) return;
        const ModelView<V> shared = work.model.view(), own = worker.own.view();
        for (std::int64_t turn = 0; turn < slices_; ++turn) {
            const std::int64_t slice = (turn + worker.first_slice) % slices_;
            const std::int64_t begin = slice * shared.features / slices_, end = (slice + 1) * shared.features / slices_;
            const std::lock_guard lock(slice_locks_[static_cast<std::size_t>(slice)]);
            for (int c = 0; c < shared.classes; ++c) {
                const V scale = static_cast<V>(own.lanes[c].scale),
                        keep = worker.blocks[static_cast<std::size_t>(c)].keep();
                const int stride = shared.stride, classes = shared.classes;
                V* __restrict to = shared.weights + c;
                V* __restrict from = worker.from.data() + c;
                V* __restrict mine = own.weights + c;
                const V* __restrict factors = worker.factors.data() + c;
                const auto sweep = [&](auto apart, auto of) {
                    for (std::int64_t i = begin; i < end; ++i)
                        to[i * apart] = from[i * apart] = mine[i * apart] =
                            merged(mine[i * apart] * scale, to[i * apart], from[i * apart], keep * factors[i * of]);
                };
                if (stride == 1)
                    sweep(std::integral_constant<std::int64_t, 1>{}, std::integral_constant<std::int64_t, 1>{});
                else
                    sweep(static_cast<std::int64_t>(stride), static_cast<std::int64_t>(classes));
            }
        }
    }

    // How far predictions of the net are off for being stale, as soft curvature expects it of the next blocks: the mean
    // square of the last merges, each counting half as much as the one after it. Under the lock.
    void follow_drift(const Worker& worker) {
        if (!rule_.soft_curvature || version_ == worker.version) return;
        const std::size_t rows = head_.common_rows();
        for (std::size_t c = 0; c < squares_.size(); ++c) {
            const std::size_t first = c * head_.net_rows();
            double sum = 0.0;
            for (std::size_t i = first; i < first + rows; ++i)
                sum += (scores_[i] - worker.start_scores[i]) * (scores_[i] - worker.start_scores[i]);
            if (std::isfinite(sum)) squares_[c] += 0.5 * (sum / static_cast<double>(rows) - squares_[c]);
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
        sampler_.choose_features(work.rows, order_);
        head_.choose(work, sampler_, order_);
        spectra_ = std::vector<Spectrum<V>>(classes);
        const int rank = strategy.k > 0 ? strategy.k : head_.places() <= 1024 ? 64 : 32;
        for (Spectrum<V>& spectrum : spectra_) spectrum.reset(head_.places(), rank);
        next_estimate_ = rows_done_;
        squares_.assign(classes, 0.0);
        scale_ = -1.0;
        tail_ = head_.places() < model.features;
        slices_ = std::clamp<std::int64_t>(model.features / slice_least, 1, slices_most);
        slice_locks_ = std::make_unique<std::mutex[]>(static_cast<std::size_t>(slices_));
        workers_.clear();
        for (std::int64_t i = 0; i < threads_; ++i)
            workers_.push_back(std::make_unique<Worker>(model, tail_, i * slices_ / threads_));
        const std::int64_t least = least_block(work, rank);
        control_.begin(strategy.block_size, least, std::min(order_.count() / (2 * threads_), 32 * least),
                       strategy.tolerance, threads_, strategy.refine != 0);
    }

    // Rows of a block with which threads are a quarter faster than one, by a count of nanoseconds for what training and
    // merging read and write: the merge may take so much of a thread's time, and its lock so much of everybody's.
    std::int64_t least_block(const Workspace<Rows>& work, int rank) const {
        const auto classes = static_cast<double>(work.model.classes()),
                   stride = static_cast<double>(workers_[0]->own.view().stride);
        const double mean = static_cast<double>(entries_of(work.rows)) / static_cast<double>(work.rows.rows);
        const auto head = static_cast<double>(head_.size()), net = static_cast<double>(head_.entries());
        const double locked =
            1000.0 + classes * (3.0 * head + static_cast<double>(head_.places()) * rank * 3.0 / 8.0 + net);
        const double all = 2000.0 + locked + classes * (3.0 * head + net) +
                           (tail_ ? 1.5 * static_cast<double>(work.rows.features) * stride : 0.0);
        const double row = 40.0 + 1.4 * mean * stride;
        return 1 + static_cast<std::int64_t>(1.25 * std::max(all / (threads_ - 1.25), locked) / row);
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
    Head<Rows> head_;
    bool tail_ = false;
    double scale_ = -1.0;  // the net's loss at the start
    std::vector<std::unique_ptr<Worker>> workers_;

    std::atomic<bool> stop_{false};
    std::atomic<int> working_{0};
    bool halted_ = false;
    std::int64_t done_ = 0, rows_done_ = 0, alone_until_ = 0;  // rows of all passes

    std::mutex merging_;  // of all that follows
    HeadModel<V> shared_;
    std::vector<double> scores_;  // the net's predictions by it
    std::int64_t version_ = 0;
    double usual_ = 1.0;  // merges by others that a block finds, where there are any
    AsyncControl control_;
    bool meet_ = false;  // nobody takes another block
    std::int64_t taken_ = 0, rows_ = 0, merges_ = 0, checks_ = 0, alone_rows_ = 0, caught_ = 0;
    std::vector<double> losses_, squares_;
    double errors_ = 0.0;

    std::int64_t slices_ = 1;  // of the tail, each under its lock
    std::unique_ptr<std::mutex[]> slice_locks_;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_async_curvature(const StrategySpec&) {
    return std::make_unique<AsyncCurvature<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_async_curvature, const StrategySpec&)

}  // namespace symsgd

// Rounds merged by the curvature combiner: MR-SymSGD with nothing beside the weights in the inner loop.
//
// Blocks of a round start from the same model and are merged as curvature_merge.hpp says. A *sweep* of refinement
// trains them again, each from where the chain says that its predecessor ended (parareal: SGD is the fine propagator,
// the merge the coarse one): as many sweeps as a round has blocks, less one, are sequential SGD, for every loss. What a
// sweep changes is the error of the merge before it. Some rounds are checked by a sweep, and the error found steers the
// size of the blocks (block_control.hpp); a round that a few sweeps do not settle is trained by one thread instead.
//
// Under it all lies a net: the loss of a few rows before and after a merge. A merge that has done harm is undone, and
// its round begun again and refined.
//
// Blocks, not threads, define the result: same seed and number of threads, same bits.
#include <atomic>
#include <cmath>

#include "block_control.hpp"
#include "curvature_merge.hpp"

namespace symsgd {

namespace {

constexpr std::int64_t probe_rows = 256;    // that errors are measured by
constexpr std::int64_t net_entries = 8192;  // of the rows that every merge is judged by
constexpr double harm = 2.0;                // a merge that makes their loss so many times larger is undone
constexpr int most_sweeps = 3;              // before a round is left to one thread
constexpr int many_threads = 8;             // from here on a round has two blocks a thread, so that a slow one has one

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
            member.alone([&] { decide_next(work); });
            // what is looked at between phases changes within them alone, so that all threads go the same way
            while (at_ < order_.count() && !halted_) {
                if (alone_)
                    run_alone(member, work, stopped);
                else
                    run_round(member, work, stopped);
            }
        });
        sums.stopped = stop_;
        sums.rows = at_;
        sums.merges = merges_;
        sums.sweeps = sweeps_;
        sums.rank = merge_.rank();
        sums.error = checks_ > 0 ? errors_ / static_cast<double>(checks_) : -1.0;
        sums.alone = alone_rows_;
        sums.caught = caught_;
        work.model.set_t(t_ + static_cast<double>(at_));
    }

private:
    struct Piece {
        std::int64_t begin, rows;
        double t;
    };

    // ---- what comes next, decided by one thread at the end of what came before

    void decide_next(Workspace<Rows>& work) {
        halted_ = stop_;
        if (halted_ || at_ == order_.count()) return;
        const std::int64_t rows = width_ > 1 ? control_.block(rows_done_, order_.count() - at_, width_) : 0;
        alone_ = rows == 0;
        if (!alone_) return plan(work, rows);
        if (to_be_judged_) judge_last(work, net_loss(work, work.model.view(), 0, 1));
    }

    void plan(Workspace<Rows>& work, std::int64_t rows) {
        pieces_.clear();
        for (std::int64_t begin = at_; begin < order_.count() && static_cast<std::int64_t>(pieces_.size()) < width_;
             begin += rows)
            pieces_.push_back({begin, std::min(rows, order_.count() - begin), t_ + static_cast<double>(begin)});
        const Rule& rule = work.spec.rule;
        std::vector<double> keep, steps;
        for (const Lane& lane : work.model.lanes()) {
            double sum = 0.0;
            for (std::size_t p = 0; p < pieces_.size(); ++p) {
                const double of_block = about_steps(rule.schedule, lane.step_size, pieces_[p]);
                keep.push_back(std::exp(-rule.penalty.l2 * of_block));
                if (p > 0) sum += of_block;
            }
            steps.push_back(sum / std::max(1.0, static_cast<double>(pieces_.size() - 1)));
        }
        checking_ = watches_ && (control_.check_due() || suspect_);
        refining_ = (checking_ || asked_ > 0) && pieces_.size() > 1;
        merge_.begin_round(static_cast<int>(pieces_.size()), std::move(keep), std::move(steps), refining_);
    }

    // The sum of a block's step sizes, by Simpson's rule: a sum over all rows would hold up everybody else.
    static double about_steps(const Schedule& schedule, double size, const Piece& piece) {
        const auto step = [&](double t) { return sum_of_steps(schedule, size, t, 1); };
        const double last = piece.t + static_cast<double>(piece.rows - 1);
        return static_cast<double>(piece.rows) * (step(piece.t) + 4.0 * step(0.5 * (piece.t + last)) + step(last)) /
               6.0;
    }

    // ---- one thread: all there is without others, and what is done where no round is worth it

    template <class Stopped>
    void run_alone(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.phase(
            1,
            [&](std::int64_t) {
                std::int64_t rows = order_.count() - at_;
                if (width_ > 1) rows = std::min(rows, control_.alone(rows_done_));
                done_ = train(work, work.model, {at_, rows, t_ + static_cast<double>(at_)}, stopped);
            },
            [&] {
                at_ += done_;
                rows_done_ += done_;
                alone_rows_ += done_;
                decide_next(work);
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

    // ---- a round

    template <class Stopped>
    void run_round(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        if (rows_done_ >= next_spectrum_) estimate(member, work);
        train_blocks(member, work, 0, stopped);
        if (halted_ || harmed_) return;
        if (refining_) return refine(member, work, stopped);
        member.phase(
            merge_.slices, [&](std::int64_t slice) { merge_.finish(work, slice, before_.data()); },
            [&] {
                merge_.factors_renewed();
                for (int c = 0; c < work.model.classes(); ++c)
                    next_intercepts_[static_cast<std::size_t>(c)] = merge_.merged_intercept(work, c, nullptr);
                take_lanes(work);
                end_round(work);
            });
    }

    void estimate(Crew::Member& member, Workspace<Rows>& work) {
        merge_.estimate(member, work, order_, estimates_, t_ + static_cast<double>(at_));
        member.alone([&] {
            ++estimates_;
            // the curvature settles as the model does; where gradients jump there is none to be seen before the first
            // round has shown how far predictions are off
            const std::int64_t soon = rule_.soft_curvature ? 512 : 16384;
            next_spectrum_ = std::max(4 * rows_done_, std::min(soon, order_.count()));
        });
    }

    // From block `first` on, each from the model; in sweeps (first = 1) from where its replica stands.
    template <class Stopped>
    void train_blocks(Crew::Member& member, Workspace<Rows>& work, std::int64_t first, const Stopped& stopped) {
        const auto count = static_cast<std::int64_t>(pieces_.size());
        member.phase(
            count - first,
            [&](std::int64_t task) {
                const std::int64_t p = first + task;
                Model<V>& replica = *merge_.replicas[static_cast<std::size_t>(p)];
                if (first == 0) {
                    const ModelView<V> from = work.model.view(), to = replica.view();
                    replica.lanes() = work.model.lanes();
                    std::copy_n(from.weights, from.features * from.stride, to.weights);
                    net_parts_[static_cast<std::size_t>(p)] = net_loss(work, to, p, count);
                }
                for (Lane& lane : replica.lanes()) {
                    lane.loss = 0.0;
                    lane.likelihood = 1.0;
                }
                const Piece& piece = pieces_[static_cast<std::size_t>(p)];
                if (train(work, replica, piece, stopped) < piece.rows) stop_ = true;
                merge_.project(work, p);
            },
            [&] {
                halted_ = stop_;
                if (halted_) return;
                if (first == 0) judge_last(work, std::accumulate(net_parts_.begin(), net_parts_.begin() + count, 0.0));
                if (!harmed_) merge_.chain(first > 0);
            });
    }

    // What the lanes have of the merged model, whose weights are in place already, free of any scale.
    void take_lanes(Workspace<Rows>& work) {
        for (std::size_t c = 0; c < work.model.lanes().size(); ++c) {
            Lane& lane = work.model.lanes()[c];
            before_intercepts_[c] = lane.intercept;
            before_scales_[c] = lane.scale;
            lane.intercept = next_intercepts_[c];
            lane.scale = lane.inverse = 1.0;
        }
    }

    // ---- refinement

    template <class Stopped>
    void refine(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.alone([&] { begin_refining(work); });
        follow_chain(member, work, false);
        do {
            member.alone([&] {
                std::swap(next_, last_);
                std::swap(next_intercepts_, last_intercepts_);
            });
            train_blocks(member, work, 1, stopped);
            if (halted_) return;
            follow_chain(member, work, true);
            member.alone([&] { judge_sweep(work); });
        } while (refine_more_);
        const ModelView<V> global = work.model.view();
        member.phase(
            merge_.slices,
            [&](std::int64_t slice) {
                if (given_up_) return;
                const std::int64_t begin = slice * global.features / merge_.slices * global.stride,
                                   end = (slice + 1) * global.features / merge_.slices * global.stride;
                std::copy(global.weights + begin, global.weights + end, before_.data() + begin);
                std::copy(next_.data() + begin, next_.data() + end, global.weights + begin);
            },
            [&] {
                if (!given_up_) take_lanes(work);
                end_round(work);
            });
    }

    void begin_refining(const Workspace<Rows>& work) {
        const std::size_t numbers = before_.size();
        if (next_.size() != numbers) next_ = Array<V>(numbers);
        if (last_.size() != numbers) last_ = Array<V>(numbers);
        merge_.make_starts();
        start_intercepts_.clear();
        for (const Lane& lane : work.model.lanes())
            start_intercepts_.insert(start_intercepts_.end(), pieces_.size(), lane.intercept);
        sweeps_of_round_ = 0;
    }

    // Puts replicas where their blocks should have started, and the end of the chain into next_.
    void follow_chain(Crew::Member& member, Workspace<Rows>& work, bool again) {
        member.phase(
            merge_.slices, [&](std::int64_t slice) { merge_.follow(work, slice, again, next_.data()); },
            [&] {
                merge_.factors_renewed();
                for (int c = 0; c < work.model.classes(); ++c) {
                    const auto lane = static_cast<std::size_t>(c);
                    double* starts = start_intercepts_.data() + lane * pieces_.size();
                    next_intercepts_[lane] = merge_.merged_intercept(work, c, starts);
                    for (std::size_t p = 1; p < pieces_.size(); ++p) {
                        Lane& own = merge_.replicas[p]->lanes()[lane];
                        const double loss = own.loss;  // of the sweep, counted if it is the last
                        own = work.model.lanes()[lane];
                        own.intercept = starts[p];
                        own.scale = own.inverse = 1.0;
                        own.loss = loss;
                    }
                }
            });
    }

    // What the last sweep has changed, as a share of the spread of the predictions, and whether to go on.
    void judge_sweep(const Workspace<Rows>& work) {
        ++sweeps_of_round_;
        ++sweeps_;
        double changed = 0.0, spread = 0.0;
        for (int c = 0; c < work.model.classes(); ++c) {
            double sum = 0.0, squares = 0.0;
            for (const std::int64_t row : probe_) {
                const auto lane = static_cast<std::size_t>(c);
                const double now = score(work.rows, row, next_.data() + c, merge_.stride()) + next_intercepts_[lane];
                const double before = score(work.rows, row, last_.data() + c, merge_.stride()) + last_intercepts_[lane];
                changed += (now - before) * (now - before);
                sum += now;
                squares += now * now;
            }
            // where all predictions are alike, their size is what there is to compare with
            spread += std::max(squares - sum * sum / static_cast<double>(probe_.size()), 1e-4 * squares);
        }
        const double error = changed > 0.0 || !(changed <= 0.0) ? std::sqrt(changed / spread) : 0.0;
        if (sweeps_of_round_ == 1) error_ = error;
        const int most = static_cast<int>(pieces_.size()) - 1;
        const bool far = !(error <= 2.0 * tolerance_), more = sweeps_of_round_ < most;
        const bool due = sweeps_of_round_ < std::min(asked_, most);
        given_up_ = !std::isfinite(error) || (checking_ && far && more && !due && sweeps_of_round_ >= most_sweeps);
        refine_more_ = !given_up_ && more && (due || (checking_ && far));
    }

    // ---- the end of a round, and the net

    void end_round(Workspace<Rows>& work) {
        const std::int64_t rows = pieces_.back().begin + pieces_.back().rows - at_;
        control_.end_round();
        suspect_ = false;
        if (checking_) {
            errors_ += std::isfinite(error_) ? error_ : 1.0;
            ++checks_;
        }
        if (refining_ && given_up_) {
            control_.steer(error_, true, rows_done_);
            control_.train_alone_until(rows_done_ + rows);
            return decide_next(work);
        }
        round_losses_.assign(static_cast<std::size_t>(work.model.classes()), 0.0);
        for (std::size_t c = 0; c < round_losses_.size(); ++c) {
            for (std::size_t p = 0; p < pieces_.size(); ++p) round_losses_[c] += merge_.replicas[p]->lanes()[c].loss;
            work.model.lanes()[c].loss += round_losses_[c];
        }
        round_rows_ = rows;
        round_merges_ = static_cast<std::int64_t>(pieces_.size());
        at_ += rows;
        rows_done_ += rows;
        merges_ += round_merges_;
        if (rule_.soft_curvature && rows_done_ >= next_spectrum_) follow_drift(work);
        if (checking_) control_.steer(error_, false, rows_done_);
        to_be_judged_ = !refining_;
        if (at_ == order_.count() && to_be_judged_) judge_last(work, net_loss(work, work.model.view(), 0, 1));
        if (!harmed_) decide_next(work);
    }

    // `loss` is that of the net's rows by the model that the last merge has made. What a sweep has confirmed is not
    // doubted.
    void judge_last(Workspace<Rows>& work, double loss) {
        harmed_ = to_be_judged_ && !(loss <= harm * net_loss_ + 0.1 * net_scale_);
        to_be_judged_ = false;
        if (!harmed_) {
            net_loss_ = loss;
            return;
        }
        const ModelView<V> global = work.model.view();
        std::copy_n(before_.data(), global.features * global.stride, global.weights);
        for (int c = 0; c < global.classes; ++c) {
            global.lanes[c].intercept = before_intercepts_[static_cast<std::size_t>(c)];
            global.lanes[c].scale = before_scales_[static_cast<std::size_t>(c)];
            global.lanes[c].inverse = 1.0 / global.lanes[c].scale;
            global.lanes[c].loss -= round_losses_[static_cast<std::size_t>(c)];
        }
        at_ -= round_rows_;
        rows_done_ -= round_rows_;
        merges_ -= round_merges_;
        ++caught_;
        if (watches_)
            suspect_ = true;
        else
            control_.train_alone_until(rows_done_ + round_rows_);
        decide_next(work);
    }

    // The loss of the net's rows part, part + parts, … by a model, over the number of all of them.
    double net_loss(const Workspace<Rows>& work, const ModelView<V>& model, std::int64_t part,
                    std::int64_t parts) const {
        double total = 0.0;
        for (std::int64_t i = part; i < static_cast<std::int64_t>(net_.size()); i += parts) {
            const std::int64_t row = net_[static_cast<std::size_t>(i)];
            for (int c = 0; c < model.classes; ++c) {
                const Lane& lane = model.lanes[c];
                const Seen seen = seen_by(work.spec.targets, row, c);
                const double p = score(work.rows, row, model.weights + c, model.stride) * lane.scale + lane.intercept;
                total += seen.weight * visit(rule_.loss, [&](const auto& loss) { return loss.value(p, seen.target); });
            }
        }
        return total / static_cast<double>(net_.size());
    }

    // How far predictions are off for being stale, as soft curvature expects it: x·d of the last round, of which a
    // block misses about half.
    void follow_drift(Workspace<Rows>& work) {
        const ModelView<V> global = work.model.view();
        for (int c = 0; c < global.classes; ++c) {
            double squares = 0.0;
            for (const std::int64_t row : net_) {
                const double d = score(work.rows, row, global.weights + c, global.stride) -
                                 before_scales_[static_cast<std::size_t>(c)] *
                                     score(work.rows, row, before_.data() + c, global.stride) +
                                 global.lanes[c].intercept - before_intercepts_[static_cast<std::size_t>(c)];
                squares += d * d;
            }
            global.lanes[c].drift = 0.5 * std::sqrt(squares / static_cast<double>(net_.size()));
        }
    }

    // ---- a pass

    void begin_pass(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        order_.write(work, strategy.cores);
        rule_ = work.spec.rule;
        rule_.track_norms = false;
        t_ = work.model.t();
        at_ = merges_ = sweeps_ = checks_ = alone_rows_ = caught_ = 0;
        errors_ = 0.0;
        stop_ = halted_ = harmed_ = to_be_judged_ = false;
        width_ = strategy.threads >= many_threads ? 2 * strategy.threads : strategy.threads;
        if (width_ == 1) return;
        if (seated_classes_ == work.model.classes()) return;
        seat(work);
    }

    void seat(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        const ModelView<V> model = work.model.view();
        const auto classes = static_cast<std::size_t>(model.classes);
        seated_classes_ = model.classes;
        watches_ = strategy.refine < 0;
        asked_ = std::max(0, strategy.refine);
        tolerance_ = strategy.tolerance;
        merge_.seat(work, width_, strategy.k);
        before_ = Array<V>(static_cast<std::size_t>(model.features) * static_cast<std::size_t>(model.stride));
        for (auto* intercepts : {&before_intercepts_, &before_scales_, &next_intercepts_, &last_intercepts_})
            intercepts->assign(classes, 0.0);
        next_spectrum_ = rows_done_;
        const std::int64_t mean = 1 + entries_of(work.rows) / std::max<std::int64_t>(1, work.rows.rows);
        probe_ = spread_rows(order_, probe_rows, 3);
        net_ = spread_rows(order_, std::clamp<std::int64_t>(net_entries / mean, 16, 128), 5);
        net_parts_.assign(static_cast<std::size_t>(width_), 0.0);
        net_loss_ = net_scale_ = net_loss(work, model, 0, 1);
        const std::int64_t most = std::max<std::int64_t>(1, order_.count() / (2 * width_));
        control_.begin(strategy.block_size, least_block(work, mean), most, tolerance_);
    }

    // Rows of a block with which a round is a quarter faster than one thread, by a count of nanoseconds for what
    // training and merging read and write. Counted, not measured, so that it is the same in every run.
    std::int64_t least_block(const Workspace<Rows>& work, std::int64_t mean) const {
        const auto threads = static_cast<double>(work.spec.strategy.threads), width = static_cast<double>(width_);
        const auto numbers = static_cast<double>(work.rows.features * merge_.stride());
        const double copies = 0.6 * numbers * (1.0 + 2.0 / threads) * width / threads;
        // products with Q: of each block of a thread, and of the thread's slices for all blocks
        const double places = std::min(4096.0, static_cast<double>(work.rows.features));
        const double products =
            places * (places <= 1024.0 ? 64.0 : 32.0) * work.model.classes() * 2.0 * width / threads;
        const double merge = 20000.0 + copies + products / 8.0;
        const double row = 40.0 + 1.4 * static_cast<double>(mean * merge_.stride());
        return std::max<std::int64_t>(1, static_cast<std::int64_t>(merge / row / (width / 1.25 - width / threads)));
    }

    WrittenOrder order_;
    Rule rule_;
    CurvatureMerge<Rows> merge_;
    BlockControl control_;
    std::int64_t width_ = 1;  // blocks a round
    bool watches_ = true;     // refines where the error asks for it
    int asked_ = 0;           // sweeps in every round
    double tolerance_ = 0.0;
    int seated_classes_ = 0;

    double t_ = 1.0;
    std::int64_t at_ = 0;         // rows of this pass that are part of the model
    std::int64_t rows_done_ = 0;  // of all passes
    std::int64_t done_ = 0;
    std::atomic<bool> stop_{false};
    bool halted_ = false, alone_ = false;
    std::int64_t next_spectrum_ = 0, estimates_ = 0;

    std::vector<Piece> pieces_;  // the blocks of the round under way
    Array<V> before_;            // the model before the last merge
    std::vector<double> before_intercepts_, before_scales_;
    bool checking_ = false, refining_ = false, refine_more_ = false, given_up_ = false;
    int sweeps_of_round_ = 0;
    Array<V> next_, last_;  // what the chain has come to, and before the last sweep
    std::vector<double> next_intercepts_, last_intercepts_, start_intercepts_;
    double error_ = 0.0;

    std::vector<std::int64_t> probe_, net_;
    std::vector<double> net_parts_;
    double net_loss_ = 0.0, net_scale_ = 0.0;
    bool to_be_judged_ = false, harmed_ = false, suspect_ = false;
    std::vector<double> round_losses_;  // of the last round, by class
    std::int64_t round_rows_ = 0, round_merges_ = 0;

    std::int64_t merges_ = 0, sweeps_ = 0, checks_ = 0, alone_rows_ = 0, caught_ = 0;
    double errors_ = 0.0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_curvature(const StrategySpec&) {
    return std::make_unique<CurvatureRounds<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_curvature, const StrategySpec&)

}  // namespace symsgd

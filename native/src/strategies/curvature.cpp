// Rounds merged by the curvature combiner: MR-SymSGD with nothing beside the weights in the inner loop.
//
// Blocks of a round start from the same model and are merged as curvature_merge.hpp says. Now and then a merge is
// *checked*: its last block, the one that started from furthest behind, is trained once more from where the chain says
// that its predecessor ended, beside the blocks of the next round. How far it ends from the merged model is the error
// that steers the size of the blocks (block_control.hpp); where no size will do, one thread goes on alone.
//
// Asked for it, a round is refined by *sweeps*: all blocks are trained again from where the chain says (parareal: SGD
// is the fine propagator, the merge the coarse one). As many sweeps as a round has blocks, less one, are sequential
// SGD, for every loss. What a sweep changes is the error of the merge before it.
//
// Under it all lies a net (curvature_net.hpp). A merge that has done harm is undone, and one thread trains its rows.
//
// Blocks, not threads, define the result: same seed and number of threads, same bits.
#include <atomic>
#include <cmath>

#include "block_control.hpp"
#include "curvature_check.hpp"
#include "curvature_net.hpp"
#include "loss_drift.hpp"
#include "round_costs.hpp"

namespace symsgd {

namespace {

constexpr double small_scale = 2e-3;    // a model's scale is made 1 again from here on, long before a block would do so
constexpr std::int64_t few_blocks = 4;  // of a round, of which a check knows the error well
constexpr double seen_beside_noise = 8.0;       // tolerances that an error may be of the noise, with two blocks
constexpr double loss_counts = 2.0;             // times as much as an error of predictions
constexpr double counts_before_sweeps = 4.0;    // where a sweep may help
constexpr double most_memory = 1.0 / 3.0;       // of long blocks
constexpr double hopeless_sweep = 0.05;         // an error that no later rows are waited for to make forgotten
constexpr std::int64_t share_at_the_end = 256;  // one row of so many, at most
constexpr double swept_from = 4.0;              // times that a feature comes up in a round
constexpr double strong_decay = 0.5;            // what is left of a weight after a round that no merge can wait for

template <class Rows>
class CurvatureRounds final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        begin_pass(work);
        const auto threads = std::min<std::int64_t>(work.spec.strategy.cores, width_);
        crew_.run(static_cast<int>(threads), [&](Crew::Member& member) {
            Poll poll(should_stop);
            const auto stopped = [&] {
                if (member.number == 0 && poll()) stop_ = true;
                return stop_.load(std::memory_order_relaxed);
            };
            if (!order_written_) order_.write(member, work);
            member.alone([&] { decide_next(work); });
            // what is looked at between phases changes within them alone, so that all threads go the same way
            while (at_ < order_.count() && !halted_) {
                if (waiting_ && (alone_ || plain_ || dares())) flush(member, work);
                if (alone_)
                    run_alone(member, work, stopped);
                else
                    run_round(member, work, stopped);
            }
            if (check_.pending && !halted_) check_alone(member, work, stopped);
            if (waiting_) flush(member, work);  // a pass that was stopped
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

    void save(const Workspace<Rows>& work, StateWriter& state) override {
        state(seated_classes_);
        archive(state, seated_classes_ == work.model.classes());  // where classes have stopped, there will be new seats
    }

    void resume(Workspace<Rows>& work, StateReader& state) override {
        begin_pass(work);
        int seated = 0;
        state(seated);
        archive(state, seated == work.model.classes());
        if (seated != work.model.classes()) seated_classes_ = 0;
        in_step_ = false;
    }

private:
    template <class State>
    void archive(State& state, bool seated) {
        state(rows_done_, estimates_, chance_counts_, chance_led_, control_);
        if (seated) state(next_spectrum_, level_rows_, cold_, together_, check_.predictions, net_, losses_, merge_);
    }

    // ---- what comes next, decided by one thread at the end of what came before

    void decide_next(Workspace<Rows>& work) {
        halted_ = stop_;
        if (halted_ || at_ == order_.count()) return;
        limit_ = order_.count() - rows_at_the_end();
        const std::int64_t rows = width_ > 1 && at_ < limit_ ? control_.block(rows_done_, limit_ - at_, width_) : 0;
        alone_ = rows == 0;
        if (alone_ && check_.swept()) check_.pending = false;  // there is no next round to compare it in
        if (!alone_) return plan(work, rows);
        if (to_be_judged_) judge_last(work, net_.loss(work, 0, 1));
    }

    // What many blocks are off by is to a good part along steep directions, which whatever comes next makes forgotten:
    // there are some rows left for that, alone. After a sweep there is little else.
    std::int64_t rows_at_the_end() const {
        if (width_ < few_blocks || !control_.adapts()) return 0;
        return control_.sweeps() > 0 ? control_.rows() : std::min(control_.rows(), order_.count() / share_at_the_end);
    }

    void plan(Workspace<Rows>& work, std::int64_t rows) {
        pieces_.clear();
        // the check of the last round takes as long as a block: it is one thread's share of this one
        check_.in_turn = check_.pending && !check_.trained && control_.adapts() && width_ >= few_blocks;
        const std::int64_t most = width_ - (check_.in_turn ? 1 : 0);
        for (std::int64_t begin = at_; begin < limit_ && static_cast<std::int64_t>(pieces_.size()) < most;
             begin += rows)
            pieces_.push_back({begin, std::min(rows, limit_ - begin), t_ + static_cast<double>(begin)});
        const Rule& rule = work.spec.rule;
        RoundOfBlocks round;
        round.count = static_cast<int>(pieces_.size());
        sweeps_wanted_ = std::min(asked_ > 0 ? asked_ : control_.sweeps(), round.count - 1);
        round.refined = sweeps_wanted_ > 0;
        double left = 1.0, smallest = 1.0;  // of a weight after this round, and the scale of the model then
        for (const Lane& lane : work.model.lanes()) {
            double sum = 0.0, kept = 1.0, owed = lane.owed;
            for (std::size_t p = 0; p < pieces_.size(); ++p) {
                if (l1_) {  // to the last step, or threads would disagree on what is owed
                    round.owed.push_back(owed);
                    owed +=
                        rule.penalty.l1 * sum_of_steps(rule.schedule, lane.step_size, pieces_[p].t, pieces_[p].rows);
                }
                const double of_block = about_steps(rule.schedule, lane.step_size, pieces_[p]);
                round.keep.push_back(std::exp(-rule.penalty.l2 * of_block));
                kept *= round.keep.back();
                if (p > 0) sum += of_block;
            }
            round.steps.push_back(sum / std::max(1.0, static_cast<double>(pieces_.size() - 1)));
            left = std::min(left, kept);
            smallest = std::min(smallest, kept * lane.scale);
        }
        const double from = rule.average_from;
        for (const Piece& piece : pieces_) {
            const auto number = static_cast<double>(piece.rows);
            round.rows.push_back(number);
            if (from > 0.0) round.averaged.push_back(std::clamp(piece.t + number - from, 0.0, number));
        }
        const bool fresh = smallest < small_scale;
        // sweeps that are asked for go over all there is, so that enough of them are the sequential run
        plain_ = round.plain = (round.refined && (asked_ > 0 || fresh)) || left < strong_decay || from > 0.0 || l1_;
        follow_levels(rows);
        const bool last = pieces_.back().begin + pieces_.back().rows == limit_;
        round.fresh_scale = plain_ || fresh;
        round.reach = last || together_ || round.fresh_scale ? work.rows.features : merge_.levels.due();
        if (round.refined) round.swept = merge_.levels.in_round(rows * width_, swept_from);
        fresh_ = round.fresh_scale;
        refining_ = round.refined;
        // a round that was swept is compared in the next
        checking_ =
            watches_ && pieces_.size() > 1 && !check_.pending && control_.check_due() && !(round.refined && last);
        urgent_ = checking_ && (control_.unproven() || control_.are_long());
        reach_ = round.reach;
        // replicas without a block stay in step where something waits in them, or where they will have one at once
        pulled_ = !plain_ && (waiting_ || check_.in_turn) ? width_ : round.count;
        round.replicas = static_cast<int>(waiting_ ? width_ : round.count);
        merge_.begin_round(std::move(round), cold_);
    }

    void follow_levels(std::int64_t rows) {
        const bool alike = rows <= BlockControl::most_of(level_rows_) && level_rows_ <= BlockControl::most_of(rows);
        if (alike || together_) return;
        level_rows_ = rows;
        merge_.levels.follow(rows * width_);
        merge_.levels_changed();
        cold_ = std::min(cold_, merge_.levels.every_round());
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
        if (check_.pending) check_alone(member, work, stopped);
        member.phase(
            1,
            [&](std::int64_t) {
                std::int64_t rows = order_.count() - at_;
                if (width_ > 1 && at_ < limit_) rows = std::min(rows, control_.alone(rows_done_));
                Rule rule = rule_;
                rule.track_norms = work.spec.rule.track_norms;
                done_ = train(work, work.model, {at_, rows, t_ + static_cast<double>(at_)}, rule, stopped);
            },
            [&] {
                in_step_ = false;
                at_ += done_;
                rows_done_ += done_;
                alone_rows_ += done_;
                decide_next(work);
            });
    }

    static void measure_norms(Workspace<Rows>& work, Model<V>& model) {
        ModelView<V> view = model.view();
        work.kernels.template of_models<V>().measure(view);
        for (Lane& lane : model.lanes()) {
            lane.norm2 = lane.squares * lane.scale * lane.scale;
            lane.norm1 = lane.sizes * lane.scale;
        }
    }

    // Trains rows of the order on a model; returns how many before it was stopped.
    template <class Stopped>
    std::int64_t train(Workspace<Rows>& work, Model<V>& model, const Piece& piece, Rule rule, const Stopped& stopped) {
        if (!model.needs().average) rule.average_from = 0.0;  // of a check nothing but where it ends is of interest
        model.set_t(piece.t);
        ModelView<V> view = model.view();
        const auto slice = std::make_unique<Slice>();
        const std::int64_t rows = slice_rows(work.rows, view.stride);
        std::int64_t at = 0;
        for (; at < piece.rows && !stopped(); at += rows) {
            const std::int64_t count = std::min(rows, piece.rows - at);
            const std::int64_t* order = order_.at(piece.begin + at);
            const Block block = slice->read(work, order, order, static_cast<std::size_t>(count),
                                            static_cast<std::size_t>(order_.count() - piece.begin - at));
            work.kernels.template of_rows<Rows>().learn(work.rows, block, rule, view);
        }
        work.kernels.template of_models<V>().finish_pass(rule, view);
        return std::min(at, piece.rows);
    }

    // ---- a round

    template <class Stopped>
    void run_round(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        if (rows_done_ >= next_spectrum_) estimate(member, work);
        renew_factors(member);
        train_blocks(member, work, stopped);
        if (halted_ || harmed_) return;
        if (l1_) settle_l1(member, work);
        const bool urgent = urgent_;  // the end of a round plans the next
        if (checking_ && (refining_ ? chance_is_seen() : chance_counts_))
            check_.measure_noise(member, work, merge_, static_cast<int>(pieces_.size()), std::min(cold_, reach_));
        if (refining_) {
            refine(member, work, stopped);
            if (urgent && !halted_) check_at_once(member, work, stopped);
            return;
        }
        if (checking_) member.alone([&] { merge_.calibrate_next(); });
        member.phase(
            merge_.slices,
            [&](std::int64_t slice) {
                merge_.finish(work, slice, before_.data(), checking_ ? check_.model.get() : nullptr);
            },
            [&] {
                const int blocks = static_cast<int>(pieces_.size());
                if (checking_) aim_check([&](int c) { return merge_.merged_intercept(work, c, blocks - 1, nullptr); });
                for (int c = 0; c < work.model.classes(); ++c) take_intercept(work, c, nullptr);
                take_lanes(work);
                if (!urgent_) end_round(work);
            });
        if (urgent) check_at_once(member, work, stopped);
    }

    void renew_factors(Crew::Member& member) {
        if (!merge_.stale()) return;
        member.phase(
            merge_.slices, [&](std::int64_t slice) { merge_.renew_factors(slice); }, [&] { merge_.factors_renewed(); });
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

    // Each block from the model; beside them the check of the last round, if there is one.
    template <class Stopped>
    void train_blocks(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        const auto count = static_cast<std::int64_t>(pieces_.size());
        member.phase(
            pulled_ + (check_.pending && !check_.trained ? 1 : 0),
            [&](std::int64_t task) {
                if (task == pulled_) return train_check(work, stopped);
                const int p = static_cast<int>(task);
                Model<V>& replica = *merge_.replicas[static_cast<std::size_t>(p)];
                pull(work, replica, p);
                if (task >= count) return;
                if (checking_ && task + 1 == count) check_.model->copy(replica);
                net_parts_[static_cast<std::size_t>(p)] = net_.loss(work, p, count);
                train_block(work, p, false, stopped);
            },
            [&] {
                halted_ = stop_;
                if (halted_) return;
                judge_last(work, std::accumulate(net_parts_.begin(), net_parts_.begin() + count, 0.0));
                if (harmed_) return;
                if (check_.pending && !check_.trained) check_trained();
                if (!l1_) begin_merge(work);
                if (refining_) begin_refining(work);
            });
    }

    void settle_l1(Crew::Member& member, Workspace<Rows>& work) {
        member.phase(merge_.slices, [&](std::int64_t slice) {
            merge_.settle_l1(work, slice, before_received_.data(), checking_ ? check_.model.get() : nullptr);
        });
        member.phase(
            static_cast<std::int64_t>(pieces_.size()),
            [&](std::int64_t p) { merge_.project(work, static_cast<int>(p), false); }, [&] { begin_merge(work); });
    }

    void begin_merge(Workspace<Rows>& work) {
        if (before_average_.size() != 0)
            std::copy_n(work.model.view().average, before_average_.size(), before_average_.data());
        merge_.chain(work, false);
    }

    template <class Stopped>
    void train_block(Workspace<Rows>& work, int p, bool again, const Stopped& stopped) {
        Model<V>& replica = *merge_.replicas[static_cast<std::size_t>(p)];
        for (Lane& lane : replica.lanes()) {
            lane.loss = lane.objective = 0.0;
            lane.likelihood = 1.0;
        }
        const Piece& piece = pieces_[static_cast<std::size_t>(p)];
        Rule rule = rule_;
        // in the last sweep blocks are where they should be, the first one is from the beginning
        const bool counts = !refining_ || (again ? sweeps_of_round_ + 1 == sweeps_wanted_ : p == 0);
        rule.track_norms = work.spec.rule.track_norms && asked_ > 0 && refining_ && counts;
        // what waits would see its rows twice
        replica.hold(counts || plain_ ? work.rows.features : merge_.swept());
        if (rule.track_norms) measure_norms(work, replica);
        if (train(work, replica, piece, rule, stopped) < piece.rows) stop_ = true;
        if (!l1_) merge_.project(work, p, again);
    }

    // Brings a replica to where block p starts: at the model, decayed by the penalty of the blocks before. Only what
    // has been merged since it was last here is copied; what waits is the replica's own.
    void pull(Workspace<Rows>& work, Model<V>& replica, int p) {
        const ModelView<V> from = work.model.view(), to = replica.view();
        replica.lanes() = work.model.lanes();
        if (!plain_) {
            for (int c = 0; c < from.classes; ++c) {
                Lane& lane = replica.lanes()[static_cast<std::size_t>(c)];
                lane.scale *= merge_.planned_decay(std::min(p, merge_.round().count), c);
                lane.inverse = 1.0 / lane.scale;
                lane.folded = 1.0;
            }
            const double share = static_cast<double>(p) / static_cast<double>(width_);
            if (in_step_)
                merge_.copy_merged(from.weights, to.weights, share);
            else
                copy_written(from.weights, from.features * from.stride, to.weights, share);
            return;
        }
        for (int c = 0; c < from.classes; ++c) {
            Lane& lane = replica.lanes()[static_cast<std::size_t>(c)];
            const V scale = static_cast<V>(lane.scale * merge_.planned_decay(p, c));
            for (std::int64_t i = c; i < from.features * from.stride; i += from.stride)
                to.weights[i] = from.weights[i] * scale;
            lane.scale = lane.inverse = lane.folded = 1.0;
            lane.average_scales = lane.intercept_sum = 0.0;
        }
        if (to.average != nullptr) std::fill_n(to.average, to.features * to.stride, 0.0);
        if (!l1_) return;
        std::copy_n(from.received, from.features * from.stride, to.received);
        for (int c = 0; c < from.classes; ++c)
            to.lanes[c].owed = merge_.round().owed[static_cast<std::size_t>(c * merge_.round().count + p)];
    }

    // `starts` as the merge wants them.
    void take_intercept(Workspace<Rows>& work, int c, double* starts) {
        const auto lane = static_cast<std::size_t>(c);
        const int blocks = static_cast<int>(pieces_.size());
        next_intercepts_[lane] = merge_.merged_intercept(work, c, blocks, starts, &next_sums_[lane]);
        for (std::size_t p = 0; p < pieces_.size(); ++p)
            next_sums_[lane] += merge_.replicas[p]->lanes()[lane].intercept_sum;
    }

    // What the lanes have of the merged model, whose weights are in place already.
    void take_lanes(Workspace<Rows>& work) {
        before_lanes_ = work.model.lanes();
        for (int c = 0; c < work.model.classes(); ++c) {
            Lane& lane = work.model.lanes()[static_cast<std::size_t>(c)];
            lane.intercept = next_intercepts_[static_cast<std::size_t>(c)];
            lane.scale = merge_.merged_scale(work, c);
            lane.inverse = 1.0 / lane.scale;
            lane.average_scales = 0.0;
            lane.intercept_sum += next_sums_[static_cast<std::size_t>(c)];
            lane.owed = merge_.replicas[pieces_.size() - 1]->lanes()[static_cast<std::size_t>(c)].owed;
            follow_norms(lane, c);
        }
    }

    // A merge has changed the weights.
    void follow_norms(Lane& lane, int c) {
        const auto [squares, sizes] = merge_.norms_changed(c);
        lane.squares = std::max(0.0, lane.squares + squares);
        lane.sizes = std::max(0.0, lane.sizes + sizes);
        lane.norm2 = lane.squares * lane.scale * lane.scale;
        lane.norm1 = lane.sizes * lane.scale;
    }

    // The next round may be undone, and take with it what waits. In the first pass that is little.
    bool dares() const { return urgent_ && rows_done_ >= order_.count(); }

    // Merges what waits.
    void flush(Crew::Member& member, Workspace<Rows>& work) {
        member.alone([&] { merge_.begin_flush(cold_); });
        renew_factors(member);
        member.phase(
            merge_.slices, [&](std::int64_t slice) { merge_.finish(work, slice, before_.data(), nullptr); },
            [&] {
                nothing_waits(work);
                correct_losses(work);
                for (int c = 0; c < work.model.classes(); ++c)
                    follow_norms(work.model.lanes()[static_cast<std::size_t>(c)], c);
                if (!halted_ && at_ < order_.count()) decide_next(work);
            });
    }

    // Blocks have seen predictions that lacked what the blocks before them have learned. What is stopped by the loss,
    // or takes smaller steps by it, should do so when the sequential run would.
    void correct_losses(Workspace<Rows>& work) {
        if (l1_) return;  // a movement is not the gradients' alone
        for (int c = 0; c < work.model.classes(); ++c)
            work.model.lanes()[static_cast<std::size_t>(c)].loss += merge_.stale_loss(c);
    }

    void nothing_waits(const Workspace<Rows>& work) {
        waiting_ = false;
        merge_.levels.nothing_waits();
        cold_ = together_ ? work.rows.features : merge_.levels.every_round();
    }

    // ---- the check of a merge

    // The weights are in place already.
    template <class Intercept>
    void aim_check(Intercept&& intercept) {
        check_.aim(merge_, pieces_.back(), pieces_.size(), std::min(cold_, reach_), refining_, intercept);
    }

    // Trains it, and compares what it has come to with the merged model, which nobody changes meanwhile; of a round
    // that was swept later.
    template <class Stopped>
    void train_check(Workspace<Rows>& work, const Stopped& stopped) {
        if (train_check_on(work, check_.piece(), stopped) && !check_.swept())
            check_.compare_all(work, merge_, work.model.view());
    }

    // The check of a round that was swept, on the first block of the next, which `next` has trained on the merged
    // model.
    template <class Stopped>
    void follow_check(Workspace<Rows>& work, const ModelView<V>& next, const Stopped& stopped) {
        if (train_check_on(work, pieces_.front(), stopped)) check_.compare_all(work, merge_, next);
    }

    template <class Stopped>
    bool train_check_on(Workspace<Rows>& work, const Piece& piece, const Stopped& stopped) {
        if (train(work, *check_.model, piece, rule_, stopped) < piece.rows) stop_ = true;
        return !stop_;
    }

    // The error by which blocks are steered. Where chance moves predictions by much, two seeds of the sequential run
    // are far apart: an error that is a small share of that is one that nobody can see. Where gradients jump, and in
    // the first pass, whose large steps leave behind what later ones do not take back, it is not so. Less still where
    // steps become smaller from pass to pass.
    double steering_error() const {
        if (rows_done_ < order_.count() && depends_on_time(rule_.schedule)) return 2.0 * check_.error();
        double seen = 1.0;
        if (check_.swept() ? chance_is_seen() : chance_counts_)
            seen = std::max(1.0, seen_beside_noise * check_.noise() / (check_.swept() ? 1.0 : check_.pairs()));
        const bool by_loss = control_.adapts() && !rule_.soft_curvature;
        const double counts = check_.swept() ? 1.0 : control_.may_sweep() ? counts_before_sweeps : loss_counts;
        return std::max(check_.error() / seen, by_loss ? counts * losses_.size() : 0.0);
    }

    // Where gradients jump, a small difference is soon a large one: no round is worth more than the tolerance.
    bool to_be_undone() const {
        const double most = control_.undone_above();
        return !(steering_error() <= (control_.adapts() && rule_.soft_curvature ? 0.5 * most : most));
    }

    void judge_check() {
        check_.pending = false;
        errors_ += std::isfinite(check_.error()) ? check_.error() : 1.0;
        ++checks_;
        if (check_.calibrates()) merge_.calibrate();
        losses_.add(check_.loss_change(), check_.piece().rows, check_.swept());
        if (control_.are_long()) return control_.steer_long(!to_be_undone() && check_.memory() <= most_memory);
        control_.steer(steering_error(), rows_done_);
        const bool leads = chance_counts_ && check_.is_of_two() && seen_beside_noise * check_.noise() >= 1.0;
        chance_led_ = leads ? chance_led_ + 1 : 0;
    }

    // Blocks of a new size: the round counts only once its check has shown that they will do. One that was swept counts
    // unless it is hopeless, and is judged in the next round as others are.
    template <class Stopped>
    void check_at_once(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.phase(1, [&](std::int64_t) { train_check_on(work, check_.piece(), stopped); });
        member.phase(
            check_.parts, [&](std::int64_t part) { check_.compare(work, merge_, work.model.view(), part); },
            [&] {
                halted_ = stop_;
                if (halted_) return end_round(work);
                check_.sum_up();
                check_.trained = true;
                const double most = depends_on_time(rule_.schedule) ? control_.undone_above() : hopeless_sweep;
                check_waits_ = check_.swept() && check_.compared() <= most;
            });
        if (halted_) return;
        if (check_waits_) return member.alone([&] { end_round(work); });
        if (control_.are_long()) check_.measure_memory(member, work, merge_, before_.data(), before_lanes_);
        member.alone([&] { judge_check(); });
        if (check_is_sequential())
            return member.phase(
                merge_.slices, [&](std::int64_t slice) { check_.take(work, slice, merge_.slices); },
                [&] {
                    for (std::size_t c = 0; c < work.model.lanes().size(); ++c)
                        work.model.lanes()[c].intercept = check_.model->lanes()[c].intercept;
                    if (work.spec.rule.track_norms) measure_norms(work, work.model);
                    end_round(work);
                });
        member.alone([&] {
            if (!to_be_undone()) return end_round(work);
            restore(work, reach_ == work.rows.features);
            ++caught_;
            const std::int64_t rows = pieces_.back().begin + pieces_.back().rows - at_;
            if (!control_.adapts())
                control_.train_alone_until(rows_done_ + BlockControl::fewest_between * rows);
            else if (BlockControl::most_of(control_.rows()) >= check_.piece().rows)  // smaller ones are not worth it
                control_.train_alone_until(rows_done_ + rows);
            decide_next(work);
        });
    }

    // Of two blocks the first has started where it should, and in its check the second has, too: what it ends at is
    // where the sequential run is, but for features that wait. It has been paid for, so it is taken.
    bool check_is_sequential() const {
        return check_.is_of_two() && control_.adapts() && !l1_ && before_average_.size() == 0;
    }

    template <class Stopped>
    void check_alone(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        member.phase(
            1, [&](std::int64_t) { train_check(work, stopped); },
            [&] {
                halted_ = stop_;
                if (!halted_) check_trained();
            });
    }

    void check_trained() {
        check_.trained = true;
        if (!check_.swept()) judge_check();
    }

    // ---- refinement

    template <class Stopped>
    void refine(Crew::Member& member, Workspace<Rows>& work, const Stopped& stopped) {
        follow_chain(member, work, false, false);
        do {
            member.phase(
                static_cast<std::int64_t>(pieces_.size()),
                [&](std::int64_t p) {
                    // the first block is right, so that its thread has time
                    if (p > 0) return train_block(work, static_cast<int>(p), true, stopped);
                    if (check_.pending && check_.trained) follow_check(work, merge_.replicas.front()->view(), stopped);
                },
                [&] {
                    if (check_.pending && check_.trained && !stop_) judge_check();
                    std::swap(next_, last_);
                    std::swap(next_intercepts_, last_intercepts_);
                    halted_ = stop_;
                    if (!halted_) merge_.chain(work, true);
                });
            if (halted_) return;
            if (asked_ == 0) return finish_sweep(member, work);
            follow_chain(member, work, true, sweeps_of_round_ + 1 == sweeps_wanted_);
            member.alone([&] { judge_sweep(work); });
        } while (sweeps_of_round_ < sweeps_wanted_);
        member.phase(
            merge_.slices,
            [&](std::int64_t slice) { merge_.finish_swept(work, slice, next_.data(), before_.data(), nullptr); },
            [&] {
                take_lanes(work);
                end_round(work);
            });
    }

    // The one sweep of a round that nobody has asked it of. What it has changed is not looked at: a check says how far
    // off the round is after it.
    void finish_sweep(Crew::Member& member, Workspace<Rows>& work) {
        Model<V>* const checked = checking_ ? check_.model.get() : nullptr;
        member.phase(
            merge_.slices,
            [&](std::int64_t slice) {
                merge_.follow(work, slice, true, true, next_.data(), checked);
                merge_.finish_swept(work, slice, next_.data(), before_.data(), checked);
            },
            [&] {
                ++sweeps_of_round_;
                ++sweeps_;
                for (int c = 0; c < work.model.classes(); ++c) take_intercept(work, c, starts_of(c));
                if (checking_) {
                    aim_check([&](int c) { return starts_of(c)[pieces_.size() - 1]; });
                }
                take_lanes(work);
                if (!urgent_) end_round(work);
            });
    }

    double* starts_of(int c) { return start_intercepts_.data() + static_cast<std::size_t>(c) * pieces_.size(); }

    void begin_refining(const Workspace<Rows>& work) {
        const std::size_t numbers = before_.size();
        if (next_.size() != numbers) next_ = Array<V>(numbers, Pages::as_they_come);
        if (last_.size() != numbers) last_ = Array<V>(numbers, Pages::as_they_come);
        merge_.make_starts();
        start_intercepts_.clear();
        for (const Lane& lane : work.model.lanes())
            start_intercepts_.insert(start_intercepts_.end(), pieces_.size(), lane.intercept);
        sweeps_of_round_ = 0;
    }

    // Puts replicas where their blocks should have started, and the end of the chain into next_.
    void follow_chain(Crew::Member& member, Workspace<Rows>& work, bool again, bool last) {
        member.phase(
            merge_.slices, [&](std::int64_t slice) { merge_.follow(work, slice, again, last, next_.data(), nullptr); },
            [&] {
                for (int c = 0; c < work.model.classes(); ++c) {
                    const auto lane = static_cast<std::size_t>(c);
                    const double* const starts = starts_of(c);
                    take_intercept(work, c, starts_of(c));
                    for (std::size_t p = 1; p < pieces_.size(); ++p) {
                        Lane& own = merge_.replicas[p]->lanes()[lane];
                        const double loss = own.loss, objective = own.objective;  // of the sweep, if it is the last
                        own = work.model.lanes()[lane];
                        own.intercept = starts[p];
                        own.scale = merge_.start_scale(work, static_cast<int>(p), c);
                        own.inverse = 1.0 / own.scale;
                        own.folded = 1.0;
                        own.average_scales = own.intercept_sum = 0.0;
                        own.loss = loss;
                        own.objective = objective;
                    }
                }
            });
    }

    // What the first sweep has changed, as a share of the spread of the predictions.
    void judge_sweep(const Workspace<Rows>& work) {
        ++sweeps_of_round_;
        ++sweeps_;
        if (sweeps_of_round_ == 1) {
            const double error = check_.predictions.of(work.model.classes(), [&](std::int64_t row, int c) {
                const auto lane = static_cast<std::size_t>(c);
                return std::pair(score(work.rows, row, last_.data() + c, merge_.stride()) + last_intercepts_[lane],
                                 score(work.rows, row, next_.data() + c, merge_.stride()) + next_intercepts_[lane]);
            });
            errors_ += std::isfinite(error) ? error : 1.0;
            ++checks_;
        }
    }

    // ---- the end of a round, and the net

    void end_round(Workspace<Rows>& work) {
        const std::int64_t rows = pieces_.back().begin + pieces_.back().rows - at_;
        control_.end_round();
        merge_.levels.merged(reach_);
        if (reach_ == work.rows.features)
            nothing_waits(work);
        else
            waiting_ = true;
        in_step_ = !plain_ && !fresh_ && pulled_ == width_;
        for (std::size_t c = 0; c < work.model.lanes().size(); ++c)
            for (std::size_t p = 0; p < pieces_.size(); ++p)
                work.model.lanes()[c].loss += merge_.replicas[p]->lanes()[c].loss;
        if (!refining_) correct_losses(work);
        add_penalties(work, static_cast<double>(rows));
        round_rows_ = rows;
        round_merges_ = static_cast<std::int64_t>(pieces_.size());
        at_ += rows;
        rows_done_ += rows;
        merges_ += round_merges_;
        if (rule_.soft_curvature && rows_done_ >= next_spectrum_) follow_drift(work);
        // rounds refined to the end are the sequential run, for better or worse
        to_be_judged_ = !refining_ || sweeps_of_round_ + 1 < static_cast<int>(pieces_.size());
        if (at_ == order_.count()) judge_last(work, net_.loss(work, 0, 1));
        if (!harmed_) decide_next(work);
    }

    // The sequential run adds up the penalty of the model that each row has met. Where sweeps are asked for, so do
    // blocks; else it changes little within a round.
    void add_penalties(Workspace<Rows>& work, double rows) {
        const Rule& rule = work.spec.rule;
        if (!rule.track_norms) return;
        for (std::size_t c = 0; c < work.model.lanes().size(); ++c) {
            Lane& lane = work.model.lanes()[c];
            if (refining_ && asked_ > 0)
                for (std::size_t p = 0; p < pieces_.size(); ++p)
                    lane.objective += merge_.replicas[p]->lanes()[c].objective;
            else
                lane.objective += rows * 0.5 * (penalty_of(rule, before_lanes_[c]) + penalty_of(rule, lane));
        }
    }

    // `loss` is that of the net's rows by the model that the last merge has made.
    void judge_last(Workspace<Rows>& work, double loss) {
        harmed_ = to_be_judged_ && net_.harmed(loss);
        to_be_judged_ = false;
        if (!harmed_) return net_.accept(loss);
        restore(work, !in_step_);
        at_ -= round_rows_;
        rows_done_ -= round_rows_;
        merges_ -= round_merges_;
        ++caught_;
        check_.pending = false;
        together_ = true;
        control_.harmed(rows_done_ + round_rows_);
        decide_next(work);
    }

    // The model before the last merge, which was of `all` features or of what waited less. What still waited in the
    // replicas has seen what is undone here, and is left out.
    void restore(Workspace<Rows>& work, bool all) {
        const ModelView<V> global = work.model.view();
        if (all)
            std::copy_n(before_.data(), global.features * global.stride, global.weights);
        else
            merge_.copy_merged(before_.data(), global.weights, 0.0);
        if (global.average != nullptr) std::copy_n(before_average_.data(), before_average_.size(), global.average);
        if (l1_) std::copy_n(before_received_.data(), before_received_.size(), global.received);
        work.model.lanes() = before_lanes_;
        nothing_waits(work);
        in_step_ = false;
    }

    // How far predictions are off for being stale, as soft curvature expects it: x·d of the last round, of which a
    // block misses about half.
    void follow_drift(Workspace<Rows>& work) {
        const ModelView<V> global = work.model.view();
        for (int c = 0; c < global.classes; ++c) {
            double squares = 0.0;
            for (const std::int64_t row : net_.rows()) {
                const double d =
                    score(work.rows, row, global.weights + c, global.stride, reach_) * global.lanes[c].scale -
                    before_lanes_[static_cast<std::size_t>(c)].scale *
                        score(work.rows, row, before_.data() + c, global.stride, reach_) +
                    global.lanes[c].intercept - before_lanes_[static_cast<std::size_t>(c)].intercept;
                squares += d * d;
            }
            global.lanes[c].drift = 0.5 * std::sqrt(squares / static_cast<double>(net_.rows().size()));
        }
    }

    // ---- a pass

    void begin_pass(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        rule_ = work.spec.rule;
        rule_.track_norms = false;
        t_ = work.model.t();
        at_ = merges_ = sweeps_ = checks_ = alone_rows_ = caught_ = 0;
        errors_ = 0.0;
        stop_ = halted_ = harmed_ = to_be_judged_ = check_.pending = false;
        width_ = strategy.threads;
        first_ = rows_done_ == 0;
        const bool counts = width_ <= few_blocks && chance_is_seen();
        if (counts && !chance_counts_) control_.try_again(rows_done_);
        chance_counts_ = counts;
        if (chance_led_ >= 2) control_.try_long(order_.count());
        control_.try_without_sweeps(rows_done_, order_.count());
        if (seated_classes_ == work.model.classes()) allow_sweeps();
        order_written_ = width_ > 1 && seated_classes_ != work.model.classes();
        if (!order_written_) return;  // the crew will
        order_.write(work, strategy.cores);
        seat(work);
    }

    // Not in the first pass, nor where gradients jump.
    bool chance_is_seen() const { return control_.adapts() && !first_ && !rule_.soft_curvature; }

    void seat(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        const ModelView<V> model = work.model.view();
        const auto classes = static_cast<std::size_t>(model.classes);
        seated_classes_ = model.classes;
        watches_ = strategy.refine < 0;
        asked_ = std::max(0, strategy.refine);
        merge_.seat(work, width_, strategy.k);
        before_ = Array<V>(static_cast<std::size_t>(model.features) * static_cast<std::size_t>(model.stride),
                           Pages::as_they_come);
        before_average_ = Array<double>(model.average == nullptr ? 0 : before_.size(), Pages::as_they_come);
        l1_ = model.received != nullptr;
        before_received_ = Array<V>(l1_ ? before_.size() : 0, Pages::as_they_come);
        check_.seat(work.rows, order_,
                    watches_ ? std::make_unique<Model<V>>(model.features, model.classes, ModelNeeds{.received = l1_},
                                                          CurvatureMerge<Rows>::pages_of_replica(work))
                             : nullptr,
                    !l1_ && !rule_.soft_curvature);  // else a movement is not the gradients' alone, or they jump
        for (auto* intercepts : {&next_intercepts_, &last_intercepts_, &next_sums_}) intercepts->assign(classes, 0.0);
        next_spectrum_ = rows_done_;
        net_parts_.assign(static_cast<std::size_t>(width_), 0.0);
        net_.begin(work, order_);
        waiting_ = together_ = in_step_ = false;
        level_rows_ = -1;
        cold_ = model.features;
        const std::int64_t most = std::max<std::int64_t>(1, order_.count() / (4 * width_));
        const RoundCosts round = costs(work);
        const auto due = [&](std::int64_t rows) {
            merge_.levels.follow(rows * width_);
            return merge_.levels.mean_due();
        };
        const auto least = [&](int sweeps) {
            const std::int64_t rows = round.least_block(most, due, sweeps);
            return strategy.only_worth ? rows : std::min(rows, most);
        };
        // merges are less exact with L1 than their checks say: there they are tried again less soon
        control_.begin(strategy.block_size, least(0), most, round.least_stretch(l1_ ? 20.0 : 2.5), l1_ ? 32 : 8,
                       strategy.tolerance, order_.count());
        if (width_ <= few_blocks) control_.grow_in_part();
        least_swept_ = may_sweep(work) ? least(1) : BlockControl::none;
        allow_sweeps();
    }

    // Not in the first pass where later steps are smaller: what its large steps leave behind they do not take back.
    void allow_sweeps() {
        if (rows_done_ > 0 || !depends_on_time(rule_.schedule)) control_.allow_sweeps(least_swept_);
    }

    // Rounds may be refined where no merge is good enough: of losses whose gradients do not jump, since sweeps over
    // kinks do not settle, where what waits can be held.
    bool may_sweep(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        merge_.levels.follow(1);
        const bool waits = merge_.levels.every_round() < work.rows.features;
        return watches_ && strategy.block_size == 0 && width_ >= few_blocks && !l1_ && !rule_.soft_curvature &&
               before_average_.size() == 0 && !(waits && merge_.stride() > 1);
    }

    RoundCosts costs(const Workspace<Rows>& work) {
        RoundCosts costs = RoundCosts::of(work, width_, merge_.stride());
        const auto places = std::min<std::int64_t>(work.spec.strategy.places, work.rows.features);
        costs.count_products(static_cast<double>(places), merge_.usual_rank(places, width_), work.model.classes());
        return costs;
    }

    Crew crew_;
    WrittenOrder order_;
    bool order_written_ = false;  // of this pass, before the crew has begun it
    Rule rule_;
    CurvatureMerge<Rows> merge_;
    BlockControl control_;
    CurvatureNet<Rows> net_;
    LossDrift losses_;
    RoundCheck<Rows> check_;
    bool check_waits_ = false;    // for the next round, its own counts
    std::int64_t width_ = 1;      // blocks a round
    bool watches_ = true;         // measures errors
    bool chance_counts_ = false;  // and lets them be larger where chance moves more
    int chance_led_ = 0;          // checks in a row of two blocks whose noise alone let an error be larger
    int asked_ = 0;               // sweeps in every round
    bool l1_ = false;             // the penalty keeps a state of its own
    bool first_ = true;           // pass
    int seated_classes_ = 0;

    double t_ = 1.0;
    std::int64_t limit_ = 0;      // of this pass, to be trained in rounds
    std::int64_t at_ = 0;         // rows of this pass that are part of the model
    std::int64_t rows_done_ = 0;  // of all passes
    std::int64_t done_ = 0;
    std::atomic<bool> stop_{false};
    bool halted_ = false, alone_ = false;
    std::int64_t next_spectrum_ = 0, estimates_ = 0;
    std::int64_t least_swept_ = BlockControl::none;  // rows of blocks that may be swept

    // the round under way
    std::vector<Piece> pieces_;
    bool checking_ = false, refining_ = false;
    bool urgent_ = false;      // the check decides whether it counts
    bool plain_ = false;       // its blocks start with scale 1
    bool fresh_ = false;       // its merge ends with it
    std::int64_t reach_ = 0;   // features that it merges
    std::int64_t pulled_ = 0;  // replicas that begin it with the model
    bool in_step_ = false;     // all replicas have the model but for what the last merge has changed
    std::int64_t level_rows_ = -1;
    std::int64_t cold_ = 0;  // features from here on may wait in replicas
    bool waiting_ = false;   // and some do
    bool together_ = false;  // every round merges everything

    Array<V> before_;  // the model before the last merge
    Array<double> before_average_;
    Array<V> before_received_;
    std::vector<Lane> before_lanes_;
    int sweeps_wanted_ = 0, sweeps_of_round_ = 0;
    Array<V> next_, last_;  // what the chain has come to, and before the last sweep
    std::vector<double> next_intercepts_, last_intercepts_, start_intercepts_;
    std::vector<double> next_sums_;  // what the round adds to the sums of intercepts

    std::vector<double> net_parts_;
    bool to_be_judged_ = false, harmed_ = false;
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
SYMSGD_FOR_COPIED_ROWS(make_curvature, const StrategySpec&)

}  // namespace symsgd

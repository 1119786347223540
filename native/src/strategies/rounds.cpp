// Strategies in rounds: MR-SymSGD, and with other combiners once a pass averaging (Zinkevich et al. 2010) and AllReduce
// (Agarwal et al. 2014).
//
// The order of a pass is cut into blocks, one after the other; a round is the next `threads` of them (the last round
// has what is left). All blocks of a round start from the model w_g that the last round ended with, and run in
// parallel:
//
//     block p:  S_p = SGD from w_g over block p,   M_p its derivative there            (the paper's map)
//     merge:    w_p = S_p + M_p (w_{p−1} − w_g),   w_0 = w_g,  in the order of the blocks   (its reduction, eq.
//     combine)
//
// so that w_P approximates what one thread would have made of the same rows in the same order; M_p is applied as the
// combiner says (merge.hpp). Blocks, not threads, define the result: who trains one does not matter, and fewer threads
// than blocks give the same bits.
#include <atomic>

#include "seat.hpp"

namespace symsgd {

namespace {

template <class Rows>
class Rounds final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        prepare(work);
        next_ = pulled_ = merged_ = 0;
        stop_ = merging_ = false;
        for (auto& trained : trained_) trained = 0;
        t_ = work.model.t();
        const std::int64_t first_round = std::min(width_, blocks_);
        run_team(static_cast<int>(std::min<std::int64_t>(work.spec.strategy.cores, first_round)), [&](int worker) {
            Poll poll(should_stop);
            const auto stopped = [&] {
                if (worker == 0 && poll()) stop_ = true;
                return stop_.load(std::memory_order_relaxed);
            };
            try {
                run_worker(work, sums, stopped);
            } catch (...) {
                stop_ = true;
                throw;
            }
        });
        sums.stopped = stop_;
        have_kept_ = using_kept_ || (work.spec.strategy.keep && !stop_);
        work.model.set_t(t_ + static_cast<double>(sums.rows));
    }

private:
    static bool walks(const Seat<Rows>& seat) { return seat.replica.shape().columns == Columns::movement; }
    bool means() const { return combiner_ == CombinerKind::mean || combiner_ == CombinerKind::adagrad; }

    void prepare(Workspace<Rows>& work) {
        const StrategySpec& strategy = work.spec.strategy;
        order_.write(work, strategy.cores);
        combiner_ = strategy.combiner;
        width_ = strategy.threads;
        const std::int64_t rows = order_.count();
        block_rows_ =
            strategy.block_size > 0 ? strategy.block_size : std::max<std::int64_t>(1, (rows + width_ - 1) / width_);
        blocks_ = (rows + block_rows_ - 1) / block_rows_;
        rule_ = work.spec.rule;
        rule_.track_norms = false;
        using_kept_ = have_kept_;
        drift_.assign(static_cast<std::size_t>(work.model.classes()),
                      0.0);  // a pass that was stopped may have left some
        drift_rows_ = 0;
        if (strategy.keep) follow_classes(work.spec.targets.class_ids);
        if (seated_classes_ == work.model.classes() && seated_kept_ == using_kept_) return;
        seated_classes_ = work.model.classes();
        seated_kept_ = using_kept_;
        seats_.clear();
        for (std::int64_t p = 0; p < std::min(width_, blocks_); ++p)
            seats_.push_back(std::make_unique<Seat<Rows>>(work, shape(work, p)));
        trained_ = std::vector<std::atomic<std::int64_t>>(seats_.size());
    }

    // The combiners kept are those of the classes still in training.
    void follow_classes(const std::vector<double>& ids) {
        if (kept_ids_ == ids) return;
        std::vector<KeptCombiner<V>> kept(static_cast<std::size_t>(blocks_) * ids.size());
        for (std::size_t c = 0; c < ids.size() && have_kept_; ++c) {
            const auto from =
                static_cast<std::size_t>(std::find(kept_ids_.begin(), kept_ids_.end(), ids[c]) - kept_ids_.begin());
            for (std::size_t b = 0; b < static_cast<std::size_t>(blocks_); ++b)
                kept[b * ids.size() + c] = std::move(kept_[b * kept_ids_.size() + from]);
        }
        kept_ = std::move(kept);
        kept_ids_ = ids;
    }

    // What the p-th block of a round trains. The first finds the model where it left it, and needs no combiner.
    ReplicaShape shape(const Workspace<Rows>& work, std::int64_t p) const {
        ReplicaShape shape;
        const PenaltyKind penalty = work.spec.rule.penalty.kind;
        switch (combiner_) {
            case CombinerKind::matrix:
                shape.columns = using_kept_ ? Columns::none : Columns::identity;
                shape.whole = true;
                break;
            case CombinerKind::walk:
                shape.columns = Columns::movement;
                break;
            case CombinerKind::projected:
                shape.columns = Columns::random;
                shape.k = work.spec.strategy.k;
                break;
            case CombinerKind::adagrad:
                shape.whole = true;
                break;
            case CombinerKind::mean:
                shape.whole = penalty == PenaltyKind::halves;  // unseen halves shrink too, each replica's on its own
                break;
            case CombinerKind::sum:
                break;
        }
        shape.apart = !means() && combiner_ != CombinerKind::walk && p > 0;
        if (p == 0) shape.columns = Columns::none;
        // a copy of everything is cheaper than copying what a block has where that is nearly everything
        const std::int64_t mean = entries_of(work.rows) / std::max<std::int64_t>(work.rows.rows, 1);
        shape.whole = shape.whole || !Rows::sparse || mean * block_rows_ >= work.rows.features;
        return shape;
    }

    std::int64_t round_begin(std::int64_t block) const { return block / width_ * width_; }
    std::int64_t round_end(std::int64_t block) const { return std::min(round_begin(block) + width_, blocks_); }
    std::int64_t block_begin(std::int64_t block) const { return block * block_rows_; }
    std::int64_t rows_of(std::int64_t block) const {
        return std::min(block_rows_, order_.count() - block_begin(block));
    }
    Seat<Rows>& seat(std::int64_t block) { return *seats_[static_cast<std::size_t>(block - round_begin(block))]; }

    template <class Stopped>
    void run_worker(Workspace<Rows>& work, PassSums& sums, const Stopped& stopped) {
        for (std::int64_t block = next_++; block < blocks_; block = next_++) {
            Seat<Rows>& mine = seat(block);
            // the seat is free once the block that sat there in the last round has been merged
            wait_until([&] { return merged_ >= round_begin(block) || stopped(); });
            if (stop_) return;
            mine.prepare(work, order_.at(block_begin(block)), rows_of(block), rows_of(block));
            mine.replica.pull(work.model.view(), place(work, block), work.kernels);
            ++pulled_;
            // the walk trains in turn, when it knows how far the model has moved
            if (!walks(mine) && !mine.train(work, rule_, stopped)) return;
            const auto at = static_cast<std::size_t>(block - round_begin(block));
            trained_[at] = block + 1;
            merge_what_is_ready(work, sums, stopped);
            if (stopped()) return;
        }
        // whoever has nothing left to do still asks whether to stop
        wait_until([&] { return merged_ >= blocks_ || stopped(); });
    }

    BlockPlace place(const Workspace<Rows>& work, std::int64_t block) {
        BlockPlace place;
        place.number = block;
        place.t = t_ + static_cast<double>(block_begin(block));
        place.seed = work.spec.seed;
        place.pass = work.pass;
        if (work.spec.rule.penalty.l1 == 0.0) return place;
        const std::int64_t before = means() ? 0 : block_begin(block) - block_begin(round_begin(block));
        const double t = t_ + static_cast<double>(block_begin(round_begin(block)));
        for (const Lane& lane : work.model.lanes())
            place.owed.push_back(lane.owed + work.spec.rule.penalty.l1 *
                                                 sum_of_steps(work.spec.rule.schedule, lane.step_size, t, before));
        return place;
    }

    // Whether block merged_ can be merged: it has ended, and all of its round have taken their copies of the model. A
    // mean needs the whole round.
    //
    // Whoever changes what this looks at looks here afterwards, and all of it is in the one order of sequentially
    // consistent operations: of two threads that each complete half of what a merge waits for, one sees both. With
    // anything weaker each might see only its own, and a round would wait forever.
    bool ready() const {
        const std::int64_t block = merged_;
        if (block >= blocks_ || pulled_ < round_end(block)) return false;
        const std::int64_t begin = round_begin(block), last = means() ? round_end(block) : block + 1;
        for (std::int64_t b = block; b < last; ++b)
            if (trained_[static_cast<std::size_t>(b - begin)] != b + 1) return false;
        return true;
    }

    template <class Stopped>
    void merge_what_is_ready(Workspace<Rows>& work, PassSums& sums, const Stopped& stopped) {
        while (ready()) {
            if (merging_.exchange(true)) return;  // whoever merges looks again when it has let go
            while (ready() && !stop_) means() ? merge_round(work, sums) : merge_block(work, sums, stopped);
            merging_ = false;
            if (stop_) return;
        }
    }

    void add_sums(Workspace<Rows>& work, PassSums& sums, Seat<Rows>& ended) {
        for (int c = 0; c < seated_classes_; ++c) work.model.view().lanes[c].loss += ended.replica.view().lanes[c].loss;
        sums.rows += ended.rows();
        ++sums.merges;
    }

    template <class Stopped>
    void merge_block(Workspace<Rows>& work, PassSums& sums, const Stopped& stopped) {
        const std::int64_t block = merged_;
        Seat<Rows>& ended = seat(block);
        ModelView<V> global = work.model.view();
        ended.replica.measure_movement(global);
        if (rule_.soft_curvature && block != round_begin(block))
            drift_rows_ += ended.measure_drift(work, drift_.data());
        if (walks(ended)) {
            ended.replica.restart_along_movement(global, t_ + static_cast<double>(block_begin(block)));
            if (!ended.train(work, rule_, stopped)) return;
        }
        const double first = t_ + static_cast<double>(block_begin(block));
        const double end = first + static_cast<double>(ended.rows());
        const double from = work.spec.rule.average_from;
        const double averaged = from > 0.0 ? std::max(0.0, end - std::max(first, from)) : 0.0;
        const bool first_of_round = block == round_begin(block);
        if (using_kept_ && !first_of_round)
            merge_kept(ended.replica, global, kept_.data() + block * seated_classes_);
        else
            merge_chain(ended.replica, global, work.kernels, averaged);
        if (work.spec.strategy.keep && !using_kept_ && !first_of_round)
            keep_combiner(ended.replica, kept_.data() + block * seated_classes_);
        add_sums(work, sums, ended);
        if (block + 1 == round_end(block)) end_round(global);
        merged_ = block + 1;
    }

    void merge_round(Workspace<Rows>& work, PassSums& sums) {
        const std::int64_t block = merged_, last = round_end(block);
        std::vector<Replica<V>*> replicas;
        for (std::int64_t b = block; b < last; ++b) {
            replicas.push_back(&seat(b).replica);
            add_sums(work, sums, seat(b));
        }
        if (combiner_ == CombinerKind::mean)
            merge_mean(replicas, work.model.view());
        else
            merge_adagrad(replicas, work.model.view());
        merged_ = last;
    }

    // How far predictions were off in this round is what soft curvature expects of the next.
    void end_round(ModelView<V> global) {
        if (drift_rows_ == 0) return;
        for (int c = 0; c < seated_classes_; ++c) {
            double& squares = drift_[static_cast<std::size_t>(c)];
            global.lanes[c].drift = std::sqrt(squares / static_cast<double>(drift_rows_));
            squares = 0.0;
        }
        drift_rows_ = 0;
    }

    WrittenOrder order_;
    CombinerKind combiner_ = CombinerKind::projected;
    Rule rule_;
    std::int64_t width_ = 1;  // blocks a round
    std::int64_t block_rows_ = 1;
    std::int64_t blocks_ = 0;
    double t_ = 1.0;

    std::vector<std::unique_ptr<Seat<Rows>>> seats_;
    int seated_classes_ = 0;
    bool seated_kept_ = false;
    bool using_kept_ = false;
    bool have_kept_ = false;
    std::vector<KeptCombiner<V>> kept_;  // block × classes
    std::vector<double> kept_ids_;       // of those classes

    std::atomic<std::int64_t> next_{0};               // block to be taken
    std::atomic<std::int64_t> pulled_{0};             // blocks that have taken their copy of the model
    std::atomic<std::int64_t> merged_{0};             // blocks that are part of it
    std::vector<std::atomic<std::int64_t>> trained_;  // by seat: 1 + the block that has ended there
    std::atomic<bool> stop_{false};
    std::atomic<bool> merging_{false};
    std::vector<double> drift_;
    std::int64_t drift_rows_ = 0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_rounds(const StrategySpec&) {
    return std::make_unique<Rounds<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_rounds, const StrategySpec&)

}  // namespace symsgd

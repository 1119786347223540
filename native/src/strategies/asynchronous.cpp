// Strategies whose threads merge when their block ends, in no particular order.
//
// Async-SymSGD (the paper): features that at least a tenth of a sample of the rows have are *frequent*. A block takes a
// copy of their weights, trains it together with its combiner, and is merged when it ends: with d = what the model has
// moved since the copy was taken, w ← S + M d as in rounds (merge.hpp), under a lock. The weights of all other features
// are everybody's: they are read and written at every step, as in Hogwild!, which rarely meets another thread there.
// The intercept is a frequent feature. On dense rows every feature is frequent.
//
// Parameter server (Li et al. 2014): every feature that a block has is copied, and what comes back is the sum: M = I.
//
// L2: frequent weights decay with the steps of the blocks that are merged, rare ones as in decay_clock.hpp. The results
// depend on who comes first. L1, the Lasso and averages are refused for the reason given in shared_memory.cpp.
#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "decay_clock.hpp"
#include "split_seat.hpp"

namespace symsgd {

namespace {

// What both have: blocks are taken as threads become free, and merged under a lock.
template <class Rows, class AnySeat>
class Asynchronous : public Strategy<Rows> {
protected:
    using V = typename Rows::Value;

    // Takes the copy, trains it; false if it was stopped on the way.
    using Stopped = std::function<bool()>;
    virtual std::unique_ptr<AnySeat> make_seat(const Workspace<Rows>& work, ReplicaShape shape) = 0;
    virtual bool train(Workspace<Rows>& work, AnySeat& seat, std::int64_t block, const Stopped& stopped) = 0;

    static ReplicaShape shape(const Workspace<Rows>& work) {
        ReplicaShape shape;
        const StrategySpec& strategy = work.spec.strategy;
        if (strategy.combiner == CombinerKind::projected) {
            shape.columns = Columns::random;
            shape.k = strategy.k;
        } else if (strategy.combiner == CombinerKind::matrix) {
            shape.columns = Columns::identity;
        }
        return shape;
    }

    std::int64_t blocks(const Workspace<Rows>& work) const {
        const std::int64_t rows = work.spec.strategy.block_size;
        return (order_.count() + rows - 1) / rows;
    }

    // Trains blocks [begin, end) into `target`, and returns how far it came.
    std::int64_t run_blocks(Workspace<Rows>& work, ModelView<V> target, std::int64_t begin, std::int64_t end,
                            const ShouldStop& should_stop, PassSums& sums) {
        if (begin == end) return end;
        std::atomic<std::int64_t> next{begin};
        std::atomic<bool> stop{false};
        t_ = work.model.t();
        drift_.assign(static_cast<std::size_t>(target.classes), 0.0);
        const int team = static_cast<int>(std::min<std::int64_t>(work.spec.strategy.threads, end - begin));
        if (seated_classes_ != target.classes) seats_.clear();
        seated_classes_ = target.classes;
        while (static_cast<int>(seats_.size()) < team) seats_.push_back(make_seat(work, shape(work)));
        run_team(team, [&](int worker) {
            Poll poll(should_stop);
            AnySeat& seat = *seats_[static_cast<std::size_t>(worker)];
            const Stopped stopped = [&] {
                if (worker == 0 && poll()) stop = true;
                return stop.load(std::memory_order_relaxed);
            };
            try {
                for (std::int64_t block = next++; block < end && !stopped(); block = next++)
                    if (!run_block(work, seat, target, block, stopped, sums)) return;
            } catch (...) {
                stop = true;
                throw;
            }
        });
        sums.stopped = stop;
        return std::min(next.load(), end);
    }

    void pull(Workspace<Rows>& work, AnySeat& seat, ModelView<V> target, std::int64_t block) {
        BlockPlace place;
        place.number = block;
        place.t = t_ + static_cast<double>(block * work.spec.strategy.block_size);
        place.seed = work.spec.seed;
        place.pass = work.pass;
        const std::shared_lock lock(merging_);
        seat.replica.pull(target, place, work.kernels);
    }

    WrittenOrder order_;
    std::vector<std::unique_ptr<AnySeat>> seats_;

private:
    bool run_block(Workspace<Rows>& work, AnySeat& seat, ModelView<V> target, std::int64_t block,
                   const Stopped& stopped, PassSums& sums) {
        const std::int64_t size = work.spec.strategy.block_size, first = block * size;
        // the first rows of the next block are fetched too: one thread goes on with it, several lose next to nothing
        const std::int64_t left = order_.count() - first;
        seat.prepare(work, order_.at(first), std::min(size, left), left);
        pull(work, seat, target, block);
        if (!train(work, seat, block, stopped)) return false;
        const std::unique_lock lock(merging_);
        seat.replica.measure_movement(target);
        if (work.spec.rule.soft_curvature && work.spec.strategy.threads > 1) follow_drift(work, seat, target);
        merge_chain(seat.replica, target, work.kernels, 0.0);
        for (int c = 0; c < target.classes; ++c) work.model.view().lanes[c].loss += seat.replica.view().lanes[c].loss;
        sums.rows += seat.rows();
        ++sums.merges;
        return true;
    }

    // Soft curvature expects of the next block that its predictions are as far off as lately: the mean square of the
    // last merges, each counting half as much as the one after it.
    void follow_drift(Workspace<Rows>& work, AnySeat& seat, ModelView<V> target) {
        std::vector<double> squares(static_cast<std::size_t>(target.classes), 0.0);
        const std::int64_t rows = seat.measure_drift(work, squares.data());
        for (int c = 0; c < target.classes; ++c) {
            double& mean = drift_[static_cast<std::size_t>(c)];
            mean += 0.5 * (squares[static_cast<std::size_t>(c)] / static_cast<double>(rows) - mean);
            target.lanes[c].drift = std::sqrt(mean);
        }
    }

    std::shared_mutex merging_;  // shared to copy, alone to merge
    std::vector<double> drift_;
    int seated_classes_ = 0;
    double t_ = 1.0;
};

// Every feature that a block has is replicated: the parameter server, and Async-SymSGD on dense rows.
template <class Rows>
class AllReplicated final : public Asynchronous<Rows, Seat<Rows>> {
    using Base = Asynchronous<Rows, Seat<Rows>>;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        this->order_.write(work, work.spec.strategy.threads);
        this->run_blocks(work, work.model.view(), 0, this->blocks(work), should_stop, sums);
        work.model.set_t(work.model.t() + static_cast<double>(sums.rows));
    }

private:
    std::unique_ptr<Seat<Rows>> make_seat(const Workspace<Rows>& work, ReplicaShape shape) override {
        const std::int64_t mean = entries_of(work.rows) / std::max<std::int64_t>(work.rows.rows, 1);
        shape.whole = !Rows::sparse || shape.columns == Columns::identity ||
                      mean * work.spec.strategy.block_size >= work.rows.features;
        return std::make_unique<Seat<Rows>>(work, shape);
    }

    bool train(Workspace<Rows>& work, Seat<Rows>& seat, std::int64_t, const typename Base::Stopped& stopped) override {
        Rule rule = work.spec.rule;
        rule.track_norms = false;
        return seat.train(work, rule, stopped);
    }
};

template <class Rows>
class FrequentReplicated final : public Asynchronous<Rows, SplitSeat<Rows>> {
    using Base = Asynchronous<Rows, SplitSeat<Rows>>;
    using V = typename Rows::Value;

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        const int threads = work.spec.strategy.threads;
        this->order_.write(work, threads);
        ModelView<V> shared = work.model.view();
        if (!common_) frequent_ = find_frequent(work.rows, this->order_, work.spec.strategy);
        if (!common_ || common_->classes() != shared.classes) {
            const ModelNeeds needs = with_columns({}, this->shape(work), frequent_.count());
            if (!work.spec.mapped) sorted_.copy(work.rows, frequent_, stride_for(shared.classes, needs), threads);
            common_.emplace(frequent_.count(), shared.classes, ModelNeeds{});
        }
        fold_scales(shared, threads);
        clock_.wind(work.spec.rule, shared, shared.t, this->order_.count(), work.spec.strategy.block_size, threads);
        const auto features = static_cast<std::int64_t>(frequent_.features.size());
        ModelView<V> common = common_->view();
        for (int c = 0; c < shared.classes; ++c) {
            common.lanes[c] = shared.lanes[c];
            for (std::int64_t i = 0; i < features; ++i)
                common.weights[i * common.stride + c] = shared.weights[feature(i) * shared.stride + c];
        }
        std::int64_t begin = 0;
        for (const std::int64_t end : clock_.cuts()) {
            if (sums.stopped) break;
            const std::int64_t reached = this->run_blocks(work, common, begin, end, should_stop, sums);
            for (int c = 0; c < shared.classes; ++c)
                shared.lanes[c].scale = reached > begin ? clock_.after(reached - 1, c) : 1.0;
            fold_scales(shared, threads);
            begin = end;
        }
        for (int c = 0; c < shared.classes; ++c) {
            const V scale = static_cast<V>(common.lanes[c].scale);
            shared.lanes[c].intercept = common.lanes[c].intercept;
            shared.lanes[c].drift = common.lanes[c].drift;
            for (std::int64_t i = 0; i < features; ++i)
                shared.weights[feature(i) * shared.stride + c] = common.weights[i * common.stride + c] * scale;
        }
        work.model.set_t(shared.t + static_cast<double>(sums.rows));
    }

private:
    std::int64_t feature(std::int64_t i) const { return frequent_.features[static_cast<std::size_t>(i)]; }

    std::unique_ptr<SplitSeat<Rows>> make_seat(const Workspace<Rows>& work, ReplicaShape shape) override {
        shape.whole = true;
        const auto sorted = sorted_.view();
        return std::make_unique<SplitSeat<Rows>>(work, frequent_, work.spec.mapped ? nullptr : &sorted, shape);
    }

    bool train(Workspace<Rows>& work, SplitSeat<Rows>& seat, std::int64_t block,
               const typename Base::Stopped& stopped) override {
        Rule rule = work.spec.rule;
        rule.track_norms = false;
        return seat.train(work, rule, work.model.view(), [&](int c) { return clock_.before(block, c); }, stopped);
    }

    Frequent frequent_;
    SortedRows<V, typename Rows::Index> sorted_;
    std::optional<Model<V>> common_;  // the weights of the frequent features
    DecayClock clock_;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_asynchronous(const StrategySpec& spec) {
    if constexpr (Rows::sparse)
        if (spec.kind == StrategyKind::asynchronous) return std::make_unique<FrequentReplicated<Rows>>();
    return std::make_unique<AllReplicated<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_asynchronous, const StrategySpec&)

}  // namespace symsgd

// Strategies whose threads all work on one model, each number of it read and written by relaxed atomics.
//
// Hogwild! (Recht et al. 2011): every thread takes the next rows of the order and steps, whatever the others do. Two
// threads that update a weight at once may lose one of the updates.
//
// HogBatch (Sallinen et al. 2016): the same with mini-batches: the predictions of all rows of a batch come first, then
// their updates, each with its own step.
//
// Round robin (Langford et al. 2009): a thread predicts a batch whenever it likes, but makes its updates when it is
// its turn. Updates happen in the order of the rows, none is lost, and a prediction misses at most threads − 1 batches.
//
// L2: see decay_clock.hpp. L1, the Lasso and averages are not for these: they keep more than a weight a feature, and
// only together do the parts mean anything.
#include "decay_clock.hpp"

namespace symsgd {

namespace {

template <class Rows>
class SharedMemory final : public Strategy<Rows> {
    using V = typename Rows::Value;

    // What a thread has to itself.
    struct Worker {
        Worker(const ModelView<V>& model, const std::vector<Lane>& start)
            : lanes(start), scratch(3 * static_cast<std::size_t>(model.stride)) {}

        std::vector<Lane> lanes;
        Array<V> scratch;
        Slice slice;
        std::vector<V> steps;
        std::vector<double> moves;
        std::int64_t rows = 0;
    };

public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        const StrategySpec& strategy = work.spec.strategy;
        order_.write(work, strategy.threads);
        rule_ = work.spec.rule;
        rule_.track_norms = false;  // no thread can: measuring reads every weight, while the others write
        ModelView<V> model = work.model.view();
        fold_scales(model, strategy.threads);
        const std::int64_t slice = slice_rows(work.rows, model.stride);
        piece_ = std::min<std::int64_t>(slice, 256);
        if (strategy.kind == StrategyKind::round_robin) piece_ = std::min(strategy.batch_size, most_places);
        clock_.wind(work.spec.rule, model, model.t, order_.count(), piece_, strategy.threads);
        intercepts_ = Array<double>(static_cast<std::size_t>(model.classes));
        for (int c = 0; c < model.classes; ++c) intercepts_[static_cast<std::size_t>(c)] = model.lanes[c].intercept;
        std::int64_t begin = 0;
        for (const std::int64_t end : clock_.cuts()) {
            if (!sums.stopped) run_stretch(work, model, begin, end, should_stop, sums);
            begin = end;
        }
        for (int c = 0; c < model.classes; ++c) model.lanes[c].intercept = intercepts_[static_cast<std::size_t>(c)];
        work.model.set_t(model.t + static_cast<double>(sums.rows));
    }

private:
    // Blocks [begin, end), between two cuts of the clock.
    void run_stretch(Workspace<Rows>& work, ModelView<V> model, std::int64_t begin, std::int64_t end,
                     const ShouldStop& should_stop, PassSums& sums) {
        std::atomic<std::int64_t> next{begin};
        std::atomic<bool> stop{false};
        std::mutex adding;
        turn_ = begin;
        // copied here: a thread may start when another has ended and adds its losses to the model
        std::vector<Lane> start(model.lanes, model.lanes + model.classes);
        for (Lane& lane : start) lane.loss = 0.0;
        run_team(work.spec.strategy.threads, [&](int number) {
            Poll poll(should_stop);
            Worker worker(model, start);
            const auto stopped = [&] {
                if (number == 0 && poll()) stop = true;
                return stop.load();
            };
            try {
                while (!stopped()) {
                    const std::int64_t block = next++;
                    if (block >= end) break;
                    train(work, worker, model, block, stopped);
                }
            } catch (...) {
                stop = true;
                throw;
            }
            ModelView<V> own = view(model, worker, model.t);
            work.kernels.template of_models<V>().finish_pass(rule_, own);
            const std::lock_guard lock(adding);
            for (int c = 0; c < model.classes; ++c)
                model.lanes[c].loss += worker.lanes[static_cast<std::size_t>(c)].loss;
            sums.rows += worker.rows;
        });
        sums.stopped = stop;
        const std::int64_t reached = std::min(next.load(), end);
        for (int c = 0; c < model.classes; ++c)
            model.lanes[c].scale = reached > begin ? clock_.after(reached - 1, c) : 1.0;
        fold_scales(model, work.spec.strategy.threads);
    }

    ModelView<V> view(ModelView<V> model, Worker& worker, double t) {
        model.lanes = worker.lanes.data();
        model.scratch = worker.scratch.data();
        model.shared_intercepts = intercepts_.data();
        model.t = t;
        return model;
    }

    template <class Stopped>
    void train(Workspace<Rows>& work, Worker& worker, const ModelView<V>& model, std::int64_t block,
               const Stopped& stopped) {
        const StrategySpec& strategy = work.spec.strategy;
        const std::int64_t first = block * piece_, rows = std::min(piece_, order_.count() - first);
        for (int c = 0; c < model.classes; ++c) {
            Lane& lane = worker.lanes[static_cast<std::size_t>(c)];
            lane.scale = clock_.before(block, c);
            lane.inverse = 1.0 / lane.scale;
        }
        ModelView<V> own = view(model, worker, model.t + static_cast<double>(first));
        const RowKernels<Rows>& kernels = work.kernels.template of_rows<Rows>();
        const std::int64_t batch = strategy.kind == StrategyKind::hogwild ? rows : std::min(strategy.batch_size, rows);
        for (std::int64_t at = first; at < first + rows; at += batch) {
            const auto count = static_cast<std::size_t>(std::min(batch, first + rows - at));
            const std::int64_t* order = order_.at(at);
            const Block part =
                worker.slice.read(work, order, order, count, static_cast<std::size_t>(order_.count() - at));
            if (strategy.kind == StrategyKind::hogwild) {
                kernels.learn_shared(work.rows, part, rule_, own);
            } else {
                worker.steps.resize(count * static_cast<std::size_t>(model.stride));
                worker.moves.resize(count * static_cast<std::size_t>(model.classes));
                const Delayed<V> delayed{worker.steps.data(), worker.moves.data()};
                kernels.delay_shared(work.rows, part, rule_, own, delayed);
                if (strategy.kind == StrategyKind::round_robin) {
                    wait_until([&] { return turn_.load(std::memory_order_acquire) == block || stopped(); });
                    if (turn_.load(std::memory_order_acquire) != block) return;
                }
                kernels.apply_shared(work.rows, part, rule_, own, delayed);
                if (strategy.kind == StrategyKind::round_robin) turn_.store(block + 1, std::memory_order_release);
            }
        }
        worker.rows += rows;
    }

    WrittenOrder order_;
    Rule rule_;
    DecayClock clock_;
    std::int64_t piece_ = 1;
    Array<double> intercepts_;
    std::atomic<std::int64_t> turn_{0};
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_shared_memory(const StrategySpec&) {
    return std::make_unique<SharedMemory<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_shared_memory, const StrategySpec&)

}  // namespace symsgd

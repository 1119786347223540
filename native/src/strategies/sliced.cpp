// Sliced: every thread has its own features of dense rows, and all of them make the same steps, row after row.
//
// A step needs x·w over all features, and threads that met at every row would do nothing but meet. So they meet every n
// rows. With the rows of a block X, its predictions by the weights it begins with are Xw, and a step of size u along
// row i changes those of the rows after it by u Xx_i: n × n products, which do not depend on the steps. Each thread
// multiplies its slice of features, and adds up what the others have. Then all of them go through the block, each for
// itself, the same numbers in the same order, so that nobody has to be told of a step; and each moves its own weights.
//
// This is the sequential run but for rounding: no error to measure, no size to find. It multiplies n/2 times as much,
// and that is what more threads are for. Sums over slices are in the order of the slices, so that runs with as many
// slices have the same bits, whoever works on them.
#include <atomic>
#include <cmath>
#include <stdexcept>

#include "common.hpp"
#include "symsgd/crew.hpp"

namespace symsgd {

namespace {

constexpr std::int64_t line_bytes = 64;
constexpr int most_direct = 4;           // slices that every thread adds up by itself; more are added up in shares
constexpr std::int64_t ahead = 64;       // blocks whose targets are read at a time
constexpr int most_block = 64;           // rows
constexpr std::int64_t least_lines = 4;  // of a row, in a slice

template <class Rows>
class Sliced final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    explicit Sliced(const StrategySpec& spec) : alone_(make_sequential<Rows>(spec)) {}

    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        cut(work);
        if (slices_ < 2) return alone_->run_pass(work, should_stop, sums);
        order_.write_all(work.order, work.spec.strategy.cores);
        if (order_.count() == 0) return;
        blocks_ = (order_.count() + block_ - 1) / block_;
        stop_after_ = blocks_;
        const int cores = std::min(work.spec.strategy.cores, slices_);
        if (signs_.size() < static_cast<std::size_t>(cores))
            signs_ = std::vector<Sign>(static_cast<std::size_t>(cores));
        for (Sign& sign : signs_) sign.multiplied = sign.added = 0;
        Poll poll(should_stop);
        crew_.run(cores, [&](Crew::Member& member) { Worker(*this, work, member).run(poll); });
        sums.stopped = stop_after_ < blocks_;
        sums.rows = sums.stopped ? std::min(order_.count(), (stop_after_ + 1) * block_) : order_.count();
    }

private:
    // How far a thread is: blocks that it has multiplied, and of which it has added up its share.
    struct alignas(line_bytes) Sign {
        std::atomic<std::int64_t> multiplied{0};
        std::atomic<std::int64_t> added{0};
    };

    // Products and scores of a block, of a slice or of all.
    std::int64_t part_size() const { return (block_ * (block_ + stride_) + 15) / 16 * 16; }
    V* part(std::int64_t block, int slice) {
        return parts_.data() + ((block % 2) * (slices_ + 1) + slice) * part_size();
    }
    V* whole(std::int64_t block) { return part(block, slices_); }
    std::int64_t bound(int slice) const {
        const std::int64_t lines = (features_ + per_line() - 1) / per_line();
        return std::min(features_, slice * lines / slices_ * per_line());
    }
    static constexpr std::int64_t per_line() { return line_bytes / static_cast<std::int64_t>(sizeof(V)); }

    void cut(Workspace<Rows>& work) {
        const ModelView<V> view = work.model.view();
        features_ = view.features;
        stride_ = view.stride;
        weights_ = view.weights;
        block_ = std::clamp<std::int64_t>(work.spec.strategy.block_size, 8, most_block) / 8 * 8;
        const std::int64_t lines = (features_ + per_line() - 1) / per_line();
        slices_ = static_cast<int>(std::min<std::int64_t>(work.spec.strategy.threads, lines / least_lines));
        if (slices_ < 2) return;
        const std::size_t numbers = static_cast<std::size_t>(2 * (slices_ + 1) * part_size());
        if (parts_.size() != numbers) parts_ = Array<V>(numbers);
        for (std::vector<double>* column : {&targets_, &target_weights_})
            column->resize(static_cast<std::size_t>(2 * ahead * block_));
    }

    // One thread's walk through a pass.
    class Worker {
    public:
        Worker(Sliced& all, Workspace<Rows>& work, Crew::Member& member)
            : all_(all),
              work_(work),
              member_(member),
              kernels_(work.kernels.template of_gram<V>()),
              number_(member.number),
              members_(member.members()),
              begin_(number_ * all.slices_ / members_),
              end_((number_ + 1) * all.slices_ / members_),
              n_(static_cast<int>(all.block_)),
              model_(2 * all.block_, work.model.classes(), ModelNeeds{}),
              keep_(static_cast<std::size_t>(all.stride_)),
              rows_(static_cast<std::size_t>(2 * all.block_)) {
            std::iota(identity_, identity_ + most_block, std::int64_t{0});
            model_.lanes() = work.model.lanes();
            model_.set_t(work.model.t());
            for (int s = 0; s < all.slices_; ++s)
                for (int parity = 0; parity < 2; ++parity) from_[parity].push_back(all.part(parity, s));
        }

        void run(Poll& poll) {
            ModelView<V> view = model_.view();
            const V* const* rows = find(0, 0);
            read_targets(0);
            for (std::int64_t block = 0; block < all_.blocks_; ++block) {
                const V* const* const next = find(block + 1, (block + 1) % 2);
                for (int s = begin_; s < end_; ++s) {
                    V* const part = all_.part(block, s);
                    kernels_.multiply(rows, next, n_, all_.bound(s), all_.bound(s + 1), all_.weights_, all_.stride_,
                                      part, part + n_ * n_);
                }
                if (number_ == 0 && poll()) all_.stop_after_.store(block, std::memory_order_relaxed);
                sign().multiplied.store(block + 1, std::memory_order_release);
                wait([&](const Sign& other) { return other.multiplied.load(std::memory_order_acquire) > block; });
                // where they go, nobody reads any more: all have ended the block before
                if (block % ahead == 0) read_targets(block / ahead + 1);
                learn(add_up(block), block, view);
                move(rows, view);
                if (all_.stop_after_.load(std::memory_order_relaxed) <= block) break;
                rows = next;
            }
            if (number_ != 0) return;
            work_.model.lanes() = model_.lanes();
            work_.model.set_t(view.t);
        }

    private:
        Sign& sign() { return all_.signs_[static_cast<std::size_t>(number_)]; }

        // Where the rows of a block begin. The last block is filled up with a row that counts for nothing.
        const V* const* find(std::int64_t block, std::int64_t parity) {
            const V** const rows = rows_.data() + parity * n_;
            const std::int64_t first = block * n_, last = all_.order_.count() - 1;
            for (int i = 0; i < n_; ++i)
                rows[i] = work_.rows.value + *all_.order_.at(std::min(first + i, last)) * all_.features_;
            return rows;
        }

        // This thread's share of the targets of the blocks that come together.
        void read_targets(std::int64_t chunk) {
            const std::int64_t first = chunk * ahead * n_;
            const std::int64_t rows = std::min(all_.order_.count() - first, ahead * n_);
            if (rows <= 0) return;
            const std::int64_t begin = number_ * rows / members_, end = (number_ + 1) * rows / members_;
            const std::size_t at = static_cast<std::size_t>(chunk % 2 * ahead * n_ + begin);
            work_.spec.targets.read(all_.order_.at(first + begin), static_cast<std::size_t>(end - begin),
                                    all_.targets_.data() + at, all_.target_weights_.data() + at);
        }

        template <class Ready>
        void wait(Ready&& ready) {
            for (int other = 0; other < members_; ++other)
                wait_until([&] { return ready(all_.signs_[static_cast<std::size_t>(other)]) || member_.failed(); },
                           member_.patience());
            if (member_.failed()) throw std::runtime_error("another thread of the training has failed");
        }

        // Products, then scores, over all features. Few slices every thread adds up by itself, rather than wait twice.
        V* add_up(std::int64_t block) {
            const V* const* const parts = from_[block % 2].data();
            const std::int64_t size = all_.part_size() / 16;
            if (all_.slices_ <= most_direct) {
                if (own_.size() == 0) own_ = Array<V>(static_cast<std::size_t>(all_.part_size()));
                kernels_.add_parts(parts, all_.slices_, 0, size * 16, own_.data());
                return own_.data();
            }
            V* const whole = all_.whole(block);
            kernels_.add_parts(parts, all_.slices_, number_ * size / members_ * 16,
                               (number_ + 1) * size / members_ * 16, whole);
            sign().added.store(block + 1, std::memory_order_release);
            wait([&](const Sign& other) { return other.added.load(std::memory_order_acquire) > block; });
            return whole;
        }

        // The steps of a block.
        void learn(const V* whole, std::int64_t block, ModelView<V>& view) {
            const std::int64_t stride = all_.stride_, scores = n_ * stride;
            std::copy_n(whole + n_ * n_, scores, view.weights);
            std::fill_n(view.weights + scores, scores, V{});
            for (Lane& lane : model_.lanes()) lane.folded = 1.0;
            const std::size_t count =
                static_cast<std::size_t>(std::min<std::int64_t>(n_, all_.order_.count() - block * n_));
            const std::size_t at = static_cast<std::size_t>(block % (2 * ahead) * n_);
            const Targets& targets = work_.spec.targets;
            const Block own{identity_,
                            count,
                            count,
                            all_.targets_.data() + at,
                            all_.target_weights_.data() + at,
                            targets.class_ids.data(),
                            targets.positive_weight.data(),
                            targets.negative_weight.data()};
            if (number_ == 0 && work_.ahead != nullptr) work_.ahead->begin_rows(static_cast<std::int64_t>(count));
            for (int i = 0; i < n_; ++i)
                if (!std::isfinite(whole[i * n_ + i]))
                    throw std::invalid_argument(
                        "a row of X is so long that the square of its length is no number of its type; strategy "
                        "'sequential' does not need it");
            kernels_.learn({whole, n_, n_, 2 * n_}, own, work_.spec.rule, view);
        }

        // This thread's weights after them.
        void move(const V* const* rows, const ModelView<V>& view) {
            bool all_kept = true;
            for (std::size_t c = 0; c < model_.lanes().size(); ++c) {
                keep_[c] = static_cast<V>(model_.lanes()[c].folded);
                all_kept = all_kept && keep_[c] == 1;
            }
            for (int s = begin_; s < end_; ++s)
                kernels_.move(rows, n_, all_.bound(s), all_.bound(s + 1), view.weights + n_ * all_.stride_,
                              all_kept ? nullptr : keep_.data(), all_.weights_, static_cast<int>(all_.stride_));
        }

        Sliced& all_;
        Workspace<Rows>& work_;
        const Crew::Member& member_;
        const GramKernels<V>& kernels_;
        const int number_, members_, begin_, end_, n_;  // slices [begin_, end_) are this thread's
        Model<V> model_;                                // predictions and steps of a block
        std::vector<V> keep_;
        std::vector<const V*> rows_;     // of two blocks
        std::vector<const V*> from_[2];  // where slices leave their products
        Array<V> own_;
        std::int64_t identity_[most_block];
    };

    std::unique_ptr<Strategy<Rows>> alone_;  // where rows are too short to be cut
    Crew crew_;
    WrittenOrder order_;
    std::int64_t features_ = 0;
    std::int64_t stride_ = 1;
    std::int64_t block_ = 16;
    std::int64_t blocks_ = 0;
    int slices_ = 1;
    V* weights_ = nullptr;         // the model's
    Array<V> parts_;               // block parity × (slice or whole) × products and scores
    std::vector<double> targets_;  // of two chunks
    std::vector<double> target_weights_;
    std::vector<Sign> signs_;
    std::atomic<std::int64_t> stop_after_{0};  // the last block
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_sliced(const StrategySpec& spec) {
    if constexpr (Rows::sparse)
        throw std::invalid_argument("strategy sliced: sparse rows are not cut by features");
    else
        return std::make_unique<Sliced<Rows>>(spec);
}

SYMSGD_FOR_ALL_ROWS(make_sliced, const StrategySpec&)

}  // namespace symsgd

// Directions: every thread has its own features, and what the steps of a round do to each other is followed along the
// sharpest directions of the rows.
//
// With V orthonormal and q = Vᵀx (direction_rows.hpp), the steps u_j of the rows before it change the score of row i by
//
//     Σ_j u_j x_i·x_j ≈ q_i · Σ_j u_j q_j
//
// One thread goes through the steps of a round in this way, row after row: the *chain*. It is the sequential loop on
// rows of a few numbers, by their products with each other (kernels/gram-inl.hpp). Everything that has to do with
// features is sums over them, without an order: the others make scores by the weights before, and move the weights
// by the steps after it, each its own slice of the features. What the steps of a round do to each other outside of V
// comes a round late.
//
// Threads meet twice a round and never wait for the chain: while it goes through a round, the scores of the next one
// are made. Those do not have the steps of the round yet, so that the chain adds what they do along V.
//
//     thread       slices                                                            chain (thread 0)
//     turn k       add up the scores of round k − 1                                  round k − 1
//                  move the weights by the steps of round k − 2, which has ended
//                  scores of round k
//
// A *stretch* is some rounds of as many rows. Near its beginning the scores of some rows are made once more after the
// steps of one round, and compared with what V had said of them. The difference is what a row misses outside of V for
// every round that it does not see; from it follows how far the model is from the sequential one (`judge`), and that
// steers the rows of a round (block_control.hpp). A net lies under every stretch (curvature_net.hpp).
//
// Slices, not threads, define the result: same seed and number of threads, same bits.
#include <atomic>
#include <cmath>
#include <stdexcept>

#include "block_control.hpp"
#include "curvature_net.hpp"
#include "direction_rows.hpp"
#include "feature_strips.hpp"

namespace symsgd {

namespace {

constexpr int chain_rows = 16;                               // of the chain, by their products with each other
constexpr std::int64_t least_round = 32;                     // rows
constexpr std::int64_t most_round = 4096;                    // of which scores and steps are kept, of few classes
constexpr std::int64_t most_checked = 128;                   // rows whose scores are made twice
constexpr int few_rounds = 12, many_rounds = 96;             // of a stretch; few where the size is new
constexpr std::int64_t stretch_alone = 4096;                 // rows, at least, before rounds are tried again
constexpr std::int64_t cache_bytes = std::int64_t{1} << 19;  // for a thread's features of two rounds
constexpr std::int64_t alone_at_once = 2048;                 // rows between two looks at the clock

template <class Rows>
class Directions final : public Strategy<Rows> {
    using V = typename Rows::Value;

public:
    explicit Directions(const StrategySpec& spec) : sequential_(make_sequential<Rows>(spec)) {}

    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        if (!begin_pass(work)) return sequential_->run_pass(work, should_stop, sums);
        Poll poll(should_stop);
        crew_.run(std::min(work.spec.strategy.cores, slices_.count()),
                  [&](Crew::Member& member) { Worker(*this, work, member).run(poll); });
        sums.rows = at_;
        sums.stopped = stop_;
        sums.merges = rounds_done_;
        sums.rank = directions_.found() ? directions_.rank() : 0;
        sums.error = checks_ > 0 ? errors_ / static_cast<double>(checks_) : -1.0;
        sums.alone = alone_rows_;
        sums.caught = caught_;
    }

    void save(const Workspace<Rows>&, StateWriter& state) override { archive(state); }

    void resume(Workspace<Rows>& work, StateReader& state) override {
        begin_pass(work);
        archive(state);
    }

private:
    template <class State>
    void archive(State& state) {
        state(rows_done_, control_, net_, net_begun_, directions_);
    }

    bool begin_pass(Workspace<Rows>& work) {
        order_.write_all(work.order, work.spec.strategy.cores);
        at_ = rounds_done_ = checks_ = alone_rows_ = caught_ = 0;
        errors_ = 0.0;
        stop_ = ended_ = false;
        stretch_ = {};
        alone_next_ = 0;
        stride_ = work.model.view().stride;
        slices_.cut(work);
        if (slices_.count() < 2 || order_.count() == 0) return false;
        const std::int64_t rows = order_.count();
        const std::int64_t most =
            std::max(4 * most_round / std::max(stride_, 4) / least_round * least_round, least_round);
        room_ = most + most_checked;
        control_.begin(std::min(work.spec.strategy.block_size, most), least_round,
                       std::clamp(std::min(rows / 16, slices_.rows_of(cache_bytes / 2)), least_round, most),
                       stretch_alone, 0, work.spec.strategy.tolerance, rows);
        const auto cores = static_cast<std::size_t>(std::min(work.spec.strategy.cores, slices_.count()));
        if (signs_.size() < cores) signs_ = std::vector<Sign>(cores);
        for (Sign& sign : signs_) sign.scored = sign.added = 0;
        chained_ = turn_ = 0;
        const auto numbers = static_cast<std::size_t>(room_ * stride_);
        if (net_scores_.size() != 0 && net_scores_.size() != net_room() * static_cast<std::size_t>(slices_.count()))
            net_scores_ = Array<V>(net_room() * static_cast<std::size_t>(slices_.count()));
        if (scores_[0].size() != numbers) {
            for (int parity = 0; parity < 2; ++parity) {
                parts_[parity] = Array<V>(numbers * static_cast<std::size_t>(slices_.count()));
                scores_[parity] = Array<V>(numbers);
                steps_[parity] = Array<V>(numbers);
                keep_[parity].assign(static_cast<std::size_t>(stride_), V{1});
                for (std::vector<double>* column : {&targets_[parity], &target_weights_[parity]})
                    column->resize(static_cast<std::size_t>(room_));
            }
        }
        return true;
    }

    // ---- between stretches, by one thread

    struct Stretch {
        std::int64_t begin = 0, rows = 0, round = 0;  // rows of all rounds, and of each but the last
        std::int64_t rounds() const { return round == 0 ? 0 : (rows + round - 1) / round; }
        std::int64_t first(std::int64_t k) const { return begin + k * round; }
        std::int64_t count(std::int64_t k) const { return std::min(round, rows - k * round); }
        std::int64_t filled(std::int64_t k) const { return (count(k) + chain_rows - 1) / chain_rows * chain_rows; }
        // rows of round k − 1 whose scores are made once more in turn k
        std::int64_t checked(std::int64_t k) const {
            return k == 2 ? std::min(count(1) / chain_rows * chain_rows, most_checked) : 0;
        }
    };

    // Judges what was done last, and says what is next: a stretch, or some rows by one thread alone.
    void decide_next(Workspace<Rows>& work) {
        if (stretch_.round > 0) end_stretch(work);
        stretch_ = {};
        alone_next_ = 0;
        const std::int64_t left = order_.count() - at_;
        ended_ = stop_ || left == 0;
        if (ended_) return;
        const std::int64_t round = control_.block(rows_done_, left, 1) / chain_rows * chain_rows;
        alone_next_ = round == 0 ? std::min({left, control_.alone(rows_done_), alone_at_once}) : 0;
        if (alone_next_ > 0) return;
        const std::int64_t most = control_.unproven() ? few_rounds : many_rounds;
        stretch_ = {at_, std::min(left, most * round), round};
        error_ = -1.0;
    }

    void train_alone(Workspace<Rows>& work) {
        ModelView<V> view = work.model.view();
        for (const std::int64_t end = at_ + alone_next_; at_ < end;) {
            const std::int64_t count = std::min(slice_rows(work.rows, stride_), end - at_);
            const auto known = static_cast<std::size_t>(std::min(2 * count, order_.count() - at_));
            const std::int64_t* const order = order_.at(at_);
            const Block block = slice_.read(work, order, order, static_cast<std::size_t>(count), known);
            work.kernels.template of_rows<Rows>().learn(work.rows, block, work.spec.rule, view);
            at_ += count;
            rows_done_ += count;
            alone_rows_ += count;
        }
        work.model.set_t(view.t);
    }

    void end_stretch(Workspace<Rows>& work) {
        for (int s = 1; s < slices_.count(); ++s)
            for (std::size_t i = 0; i < net_room(); ++i)
                net_scores_[i] += net_scores_[net_room() * static_cast<std::size_t>(s) + i];
        const double loss = net_.loss(work, net_scores_.data());
        if (net_.harmed(loss)) {
            for (int s = 0; s < slices_.count(); ++s) slices_.restore(work, s);
            work.model.lanes() = saved_lanes_;
            work.model.set_t(saved_t_);
            control_.harmed(rows_done_ + stretch_.rows);
            ++caught_;
            return;
        }
        net_.accept(loss);
        at_ += stretch_.rows;
        rows_done_ += stretch_.rows;
        rounds_done_ += stretch_.rounds();
        if (error_ < 0.0) return;
        errors_ += error_;
        ++checks_;
        control_.steer(error_, rows_done_);
    }

    // ---- a stretch, by all

    // How far a thread is: turns whose scores it has made, and of which it has added up its share.
    struct alignas(64) Sign {
        std::atomic<std::int64_t> scored{0};
        std::atomic<std::int64_t> added{0};
    };

    class Worker {
    public:
        Worker(Directions& all, Workspace<Rows>& work, Crew::Member& member)
            : all_(all),
              work_(work),
              member_(member),
              number_(member.number),
              members_(member.members()),
              begin_(number_ * all.slices_.count() / members_),
              end_((number_ + 1) * all.slices_.count() / members_) {
            const auto slices = static_cast<std::size_t>(all.slices_.count());
            for (auto& parts : from_) parts.resize(slices);
        }

        void run(Poll& poll) {
            while (true) {
                if (number_ == 0 && poll()) all_.stop_ = true;
                member_.alone([&] { all_.decide_next(work_); });
                if (all_.ended_ || all_.alone_next_ > 0) give_back();
                if (all_.ended_) return;
                if (all_.alone_next_ > 0) {
                    member_.alone([&] { all_.train_alone(work_); });
                } else {
                    if (!all_.directions_.found()) all_.find_directions(member_, work_);
                    take();
                    run_stretch();
                }
            }
        }

    private:
        // Weights go from the model to the slices, and back.
        void take() {
            if (all_.taken_) return;
            all_.slices_.prepare(member_, work_, all_.directions_);
            member_.phase(
                all_.slices_.count(), [&](std::int64_t s) { all_.slices_.load(work_, static_cast<int>(s)); },
                [&] { all_.taken_ = true; });
        }
        void give_back() {
            if (!all_.taken_) return;
            member_.phase(
                all_.slices_.count(), [&](std::int64_t s) { all_.slices_.store(work_, static_cast<int>(s)); },
                [&] {
                    all_.taken_ = false;
                    ModelView<V> view = work_.model.view();
                    if (work_.spec.rule.track_norms) work_.kernels.template of_models<V>().measure(view);
                });
        }

        void run_stretch() {
            const Stretch& stretch = all_.stretch_;
            const std::int64_t rounds = stretch.rounds(), before = all_.turn_;
            member_.phase(
                all_.slices_.count(), [&](std::int64_t s) { all_.slices_.save(work_, static_cast<int>(s)); },
                [&] { all_.begin_chain(work_); });
            for (std::int64_t k = 0; k < rounds + 2; ++k) {
                if (k >= 1 && k <= rounds) {
                    wait([&](const Sign& other) { return other.scored.load(std::memory_order_acquire); }, before + k);
                    add_up(k - 1);
                    sign().added.store(before + k, std::memory_order_release);
                }
                if (k >= 2) {
                    wait_until(
                        [&] { return all_.chained_.load(std::memory_order_acquire) > before + k - 2 || failed(); },
                        member_.patience());
                    stop_if_failed();
                    for (int s = begin_; s < end_; ++s)
                        all_.slices_.move(work_, s, all_.order_.at(stretch.first(k - 2)), stretch.count(k - 2),
                                          all_.steps_[k % 2].data(), all_.keep_of(k - 2));
                }
                if (k < rounds) {
                    for (int s = begin_; s < end_; ++s) {
                        V* const out = all_.part(k, s);
                        all_.slices_.score(work_, s, all_.order_.at(stretch.first(k)), stretch.count(k), out);
                        if (stretch.checked(k) > 0)
                            all_.slices_.score(work_, s, all_.order_.at(stretch.first(k - 1)), stretch.checked(k),
                                               out + stretch.filled(k) * all_.stride_);
                    }
                    sign().scored.store(before + k + 1, std::memory_order_release);
                }
                if (number_ == 0 && k >= 1 && k <= rounds) {
                    wait([&](const Sign& other) { return other.added.load(std::memory_order_acquire); }, before + k);
                    all_.chain(work_, k - 1);
                    all_.chained_.store(before + k, std::memory_order_release);
                }
            }
            // each its own slices, which others may still be moving
            const std::vector<std::int64_t>& net = all_.net_.rows();
            for (int s = begin_; s < end_; ++s)
                all_.slices_.score(work_, s, net.data(), static_cast<std::int64_t>(net.size()),
                                   all_.net_scores_.data() + all_.net_room() * static_cast<std::size_t>(s));
            member_.alone([&] {
                all_.end_chain(work_);
                all_.turn_ = before + rounds;
            });
        }

        Sign& sign() { return all_.signs_[static_cast<std::size_t>(number_)]; }
        bool failed() const { return member_.failed(); }
        void stop_if_failed() const {
            if (failed()) throw std::runtime_error("another thread of the training has failed");
        }

        // Until all are there. All signs are looked at at once, since each is a line that another core has.
        template <class Get>
        void wait(Get&& get, std::int64_t turn) const {
            wait_until(
                [&] {
                    std::int64_t lowest = turn;
                    for (int other = 0; other < members_; ++other)
                        lowest = std::min(lowest, get(all_.signs_[static_cast<std::size_t>(other)]));
                    return lowest >= turn || failed();
                },
                member_.patience());
            stop_if_failed();
        }

        // This thread's share of a round's rows: scores over all slices, and targets.
        void add_up(std::int64_t k) {
            const Stretch& stretch = all_.stretch_;
            const std::int64_t rows = stretch.count(k), all = (stretch.filled(k) + stretch.checked(k)) * all_.stride_;
            std::vector<const V*>& parts = from_[k % 2];
            for (std::size_t s = 0; s < parts.size(); ++s) parts[s] = all_.part(k, static_cast<int>(s));
            const std::int64_t lines = (all + 15) / 16;
            work_.kernels.template of_gram<V>().add_parts(
                parts.data(), static_cast<int>(parts.size()), number_ * lines / members_ * 16,
                (number_ + 1) * lines / members_ * 16, all_.scores_[k % 2].data());
            const std::int64_t begin = number_ * rows / members_, end = (number_ + 1) * rows / members_;
            work_.spec.targets.read(all_.order_.at(stretch.first(k) + begin), static_cast<std::size_t>(end - begin),
                                    all_.targets_[k % 2].data() + begin, all_.target_weights_[k % 2].data() + begin);
        }

        Directions& all_;
        Workspace<Rows>& work_;
        Crew::Member& member_;
        const int number_, members_, begin_, end_;  // slices [begin_, end_) are this thread's
        std::vector<const V*> from_[2];
    };

    std::size_t net_room() const { return static_cast<std::size_t>(CurvatureNet<Rows>::most_rows * stride_); }
    V* part(std::int64_t k, int slice) { return parts_[k % 2].data() + slice * room_ * stride_; }

    // What weights are multiplied by before the steps of a round are added; null: 1.
    const V* keep_of(std::int64_t k) const {
        const std::vector<V>& keep = keep_[k % 2];
        return std::all_of(keep.begin(), keep.end(), [](V own) { return own == 1; }) ? nullptr : keep.data();
    }

    void find_directions(Crew::Member& member, Workspace<Rows>& work) {
        directions_.find(member, work, order_, work.spec.strategy.k);
        member.alone([&] {
            if (!net_begun_) net_.begin(work, order_, net_.most_rows);  // a small part of a stretch
            net_begun_ = true;
            net_scores_ = Array<V>(net_room() * static_cast<std::size_t>(slices_.count()));
        });
    }

    // ---- the chain

    void begin_chain(Workspace<Rows>& work) {
        saved_lanes_ = work.model.lanes();
        saved_t_ = work.model.t();
        if (!chain_ || chain_->model.classes() != work.model.classes())
            chain_ = std::make_unique<Chain>(work.model.classes());
        chain_->model.lanes() = work.model.lanes();
        chain_->t = work.model.t();
        moved_.assign(static_cast<std::size_t>(directions_.columns() * stride_), V{});
        for (auto& keep : keep_) keep.assign(static_cast<std::size_t>(stride_), V{1});
    }

    void end_chain(Workspace<Rows>& work) {
        work.model.lanes() = chain_->model.lanes();
        work.model.set_t(chain_->t);
    }

    // The steps of round k. `moved_` is what the steps of the round before have moved along V, which its scores do not
    // have yet; in the end, what those of this round have.
    void chain(Workspace<Rows>& work, std::int64_t k) {
        const std::int64_t first = stretch_.first(k), rows = stretch_.count(k);
        V* const scores = scores_[k % 2].data();
        V* const steps = steps_[k % 2].data();
        std::vector<V>& keep = keep_[k % 2];
        if (const V* const last = k == 0 ? nullptr : keep_of(k - 1))  // which the weights of these scores do not have
            multiply_by(last, scores, rows);
        if (stretch_.checked(k) > 0) judge(work, k, scores + stretch_.filled(k) * stride_);
        if (stretch_.checked(k + 1) > 0) expect(k, scores);
        std::fill(keep.begin(), keep.end(), V{1});
        std::vector<V> before = moved_;
        if (work.ahead != nullptr) work.ahead->begin_rows(rows);
        for (std::int64_t i = 0; i < rows; i += chain_rows) {
            const std::int64_t count = std::min<std::int64_t>(chain_rows, rows - i);
            if (!learn(work, first + i, count, k, i, scores + i * stride_, steps + i * stride_)) continue;
            const V* const now = chain_->keep;  // the loop has made its scale 1 again: all else follows
            multiply_by(now, scores + (i + count) * stride_, rows - i - count);
            multiply_by(now, steps, i);
            multiply_by(now, before.data(), directions_.columns());
            for (int c = 0; c < stride_; ++c) keep[static_cast<std::size_t>(c)] *= now[c];
        }
        for (std::size_t j = 0; j < before.size(); ++j) moved_[j] -= before[j];
    }

    void multiply_by(const V* keep, V* numbers, std::int64_t rows) const {
        for (std::int64_t i = 0; i < rows; ++i)
            for (int c = 0; c < stride_; ++c) numbers[i * stride_ + c] *= keep[c];
    }

    // Some rows of the chain. True if weights have to be multiplied by `chain_->keep`.
    bool learn(Workspace<Rows>& work, std::int64_t place, std::int64_t count, std::int64_t k, std::int64_t i,
               const V* scores, V* steps) {
        const GramKernels<V>& kernels = work.kernels.template of_gram<V>();
        Chain& chain = *chain_;
        const std::int64_t last = order_.count() - 1;
        for (int r = 0; r < chain_rows; ++r) {
            const std::int64_t row = *order_.at(place + (r < count ? r : 0));
            chain.rows[r] = directions_.of(row);
            chain.squares[r] = directions_.square(row);
            if (!std::isfinite(chain.squares[r]))
                throw std::invalid_argument(
                    "a row of X is so long that the square of its length is no number of its type; strategy "
                    "'sequential' does not need it");
            directions_.fetch(*order_.at(std::min(place + fetched_ahead + r, last)));
        }
        for (int line = 0; line < 2; ++line) {  // which other threads have written
            __builtin_prefetch(targets_[k % 2].data() + i + fetched_ahead + 8 * line);
            __builtin_prefetch(target_weights_[k % 2].data() + i + fetched_ahead + 8 * line);
        }
        __builtin_prefetch(scores + fetched_ahead * stride_);
        const Targets& targets = work.spec.targets;
        const Block own{chain.identity,
                        static_cast<std::size_t>(count),
                        static_cast<std::size_t>(count),
                        targets_[k % 2].data() + i,
                        target_weights_[k % 2].data() + i,
                        targets.class_ids.data(),
                        targets.positive_weight.data(),
                        targets.negative_weight.data()};
        ModelView<V> view = chain.model.view();
        view.t = chain.t;
        const bool settled = kernels.settle(chain.rows, directions_.columns(), scores, chain.squares, own,
                                            work.spec.rule, view, moved_.data(), steps);
        const bool kept = settled || learn_by_row(work, own, view, scores, steps);
        chain.t = view.t;
        return !kept;
    }

    // The same by the loop, row after row. False if weights have to be multiplied.
    bool learn_by_row(Workspace<Rows>& work, const Block& own, ModelView<V>& view, const V* scores, V* steps) {
        const GramKernels<V>& kernels = work.kernels.template of_gram<V>();
        Chain& chain = *chain_;
        kernels.multiply(chain.rows, chain.rows, chain_rows, 0, directions_.columns(), moved_.data(), stride_,
                         chain.products, chain.scores.data());
        for (int r = 0; r < chain_rows; ++r)  // of all features: what the row's own step is made by
            chain.products[r * chain_rows + r] = chain.squares[r];
        const std::int64_t all = chain_rows * stride_;
        const auto numbers = static_cast<std::int64_t>(own.count) * stride_;
        for (std::int64_t j = 0; j < numbers; ++j)
            view.weights[j] = scores[j] + chain.scores[static_cast<std::size_t>(j)];
        std::fill_n(view.weights + numbers, 2 * all - numbers, V{});
        for (Lane& lane : chain.model.lanes()) lane.folded = 1.0;
        kernels.learn({chain.products, chain_rows, chain_rows, 2 * chain_rows}, own, work.spec.rule, view);
        std::copy_n(view.weights + all, all, steps);
        bool kept = true;
        for (std::size_t c = 0; c < chain.model.lanes().size(); ++c) {
            chain.keep[c] = static_cast<V>(chain.model.lanes()[c].folded);
            kept = kept && chain.keep[c] == 1;
        }
        kernels.move(chain.rows, chain_rows, 0, directions_.columns(), view.weights + all, kept ? nullptr : chain.keep,
                     moved_.data(), stride_);
        return kept;
    }

    // What V says of the first scores of round k, once all steps of the round before are made.
    void expect(std::int64_t k, const V* scores) {
        const std::int64_t rows = stretch_.checked(k + 1);
        expected_.assign(scores, scores + rows * stride_);
        for (std::int64_t i = 0; i < rows; ++i) {
            const V* const q = directions_.of(*order_.at(stretch_.first(k) + i));
            for (int j = 0; j < directions_.columns(); ++j)
                for (int c = 0; c < stride_; ++c)
                    expected_[static_cast<std::size_t>(i * stride_ + c)] +=
                        q[j] * moved_[static_cast<std::size_t>(j * stride_ + c)];
        }
        expecting_ = chain_->model.lanes();
    }

    // How far the model is from the sequential one, as a share of the spread of predictions. d is what a row misses
    // for a round that it does not see; it does not see one to two, so that the mean square of what it misses is
    // 7/3 d². Its step is off by α h of that, α the step size and h the curvature of the loss. Such errors are
    // as good as independent; along a direction of sharpness λ they add up while they fade, by α h λ a row, so that
    // predictions are off by α h λ / 2 of what one row misses: α h E|x|² / 2 over all directions. Where gradients jump,
    // h is a mean of few rows that are off by a whole gradient and many that are not at all, and two runs part sooner.
    void judge(Workspace<Rows>& work, std::int64_t k, const V* scores) {
        const std::int64_t rows = stretch_.checked(k), first = stretch_.first(k - 1);
        const Rule& rule = work.spec.rule;
        double off = 0.0, spread = 0.0;
        for (std::size_t c = 0; c < expecting_.size(); ++c) {
            const Lane& lane = expecting_[c];
            double missed = 0.0, sum = 0.0, squares = 0.0, reach = 0.0;
            for (std::int64_t i = 0; i < rows; ++i) {
                const auto at = static_cast<std::size_t>(i * stride_) + c;
                const double d = (static_cast<double>(scores[at]) - static_cast<double>(expected_[at])) * lane.scale;
                const double p = static_cast<double>(scores[at]) * lane.scale + lane.intercept;
                missed += d * d / static_cast<double>(rows);
                sum += p / static_cast<double>(rows);
                squares += p * p / static_cast<double>(rows);
            }
            for (std::int64_t i = 0; i < rows; ++i) {
                const std::int64_t row = *order_.at(first + i);
                const Seen seen = seen_by(work.spec.targets, row, static_cast<int>(c));
                const double p = static_cast<double>(scores[i * stride_ + static_cast<std::int64_t>(c)]) * lane.scale +
                                 lane.intercept;
                reach +=
                    reach_of(rule, p, seen, lane.step_size * static_cast<double>(directions_.square(row)), missed) /
                    static_cast<double>(rows);
            }
            off += 7.0 / 3.0 * missed * 0.5 * reach * (rule.soft_curvature ? jumps_count : 1.0);
            spread += std::max(squares - sum * sum, 1e-4 * squares);
        }
        error_ = off > 0.0 || !(off <= 0.0) ? std::sqrt(off / spread) : 0.0;
        if (std::isnan(error_)) error_ = std::numeric_limits<double>::infinity();
    }

    // α h |x|², by how much a step moves its own prediction for every unit that it was off by; `full` is that of a
    // gradient of 1. Passive-aggressive steps move it all the way.
    static double reach_of(const Rule& rule, double p, const Seen& seen, double full, double missed) {
        if (is_passive_aggressive(rule.schedule))
            return visit(rule.loss, [&](const auto& loss) { return loss.gradient(p, seen.target) != 0 ? 1.0 : 0.0; });
        full *= seen.weight;
        return full * curvature_at(rule, p, seen.target, full, std::sqrt(missed));
    }

    // What the chain has for itself: a model whose features are the scores of its rows, and the steps along them.
    struct Chain {
        explicit Chain(int classes) : model(2 * chain_rows, classes, ModelNeeds{}) {
            std::iota(identity, identity + chain_rows, std::int64_t{0});
            scores.resize(static_cast<std::size_t>(chain_rows * model.view().stride));
            kept.assign(static_cast<std::size_t>(model.view().stride), V{1});
            keep = kept.data();
        }
        Model<V> model;
        double t = 1.0;
        const V* rows[chain_rows];
        alignas(64) V squares[chain_rows];
        alignas(64) V products[chain_rows * chain_rows];
        std::vector<V> scores, kept;
        V* keep;
        std::int64_t identity[chain_rows];
    };

    static constexpr double jumps_count = 16.0;
    static constexpr std::int64_t fetched_ahead = 48;  // rows of the chain

    std::unique_ptr<Strategy<Rows>> sequential_;  // where rows are too short to be cut
    Crew crew_;
    WrittenOrder order_;
    Slice slice_;
    FeatureSlices<Rows> slices_;
    DirectionRows<Rows> directions_;
    BlockControl control_;
    CurvatureNet<Rows> net_;
    bool net_begun_ = false;
    Array<V> net_scores_;  // of its rows by each slice

    std::int64_t at_ = 0;         // rows of this pass
    std::int64_t rows_done_ = 0;  // of all passes
    std::int64_t rounds_done_ = 0, checks_ = 0, alone_rows_ = 0, caught_ = 0;
    double errors_ = 0.0, error_ = -1.0;
    std::atomic<bool> stop_{false};
    bool ended_ = false;
    bool taken_ = false;           // the slices have the weights
    std::int64_t alone_next_ = 0;  // rows
    Stretch stretch_;
    std::int64_t turn_ = 0;  // rounds of all stretches before

    int stride_ = 1;
    std::int64_t room_ = 0;  // rows whose scores a turn may have
    Array<V> parts_[2];      // by the parity of the round: slices × rows × stride
    Array<V> scores_[2];     // over all slices
    Array<V> steps_[2];
    std::vector<V> keep_[2];
    std::vector<double> targets_[2], target_weights_[2];
    std::vector<Sign> signs_;
    alignas(64) std::atomic<std::int64_t> chained_{0};

    std::unique_ptr<Chain> chain_;
    std::vector<V> moved_, expected_;
    std::vector<Lane> expecting_, saved_lanes_;
    double saved_t_ = 1.0;
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_directions(const StrategySpec& spec) {
    return std::make_unique<Directions<Rows>>(spec);
}

SYMSGD_FOR_ALL_ROWS(make_directions, const StrategySpec&)

}  // namespace symsgd

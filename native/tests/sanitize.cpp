// Puts every strategy through what a sanitizer should see: see `make sanitize`.
//
// The whole product of strategy, combiner, threads, layout, loss and penalty is trained on problems of a few dozen
// rows; what else there is to choose (schedule, order, held-out rows, weights, blocks, norms, means) is drawn anew for
// each. Then come the corners: one row, no rows, empty rows, stops and exceptions in mid-pass, a decay that has to be
// cut, and thousands of rounds on a busy machine. Exits with 1 if a result is wrong; the sanitizers have exit codes of
// their own.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "problems.hpp"
#include "readers.hpp"

namespace symsgd::tests {
namespace {

constexpr LossKind losses[] = {LossKind::log_loss, LossKind::hinge, LossKind::squared_error,
                               LossKind::epsilon_insensitive};
constexpr PenaltyKind penalties[] = {PenaltyKind::none, PenaltyKind::decay, PenaltyKind::truncate, PenaltyKind::halves};

int failures = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    if (++failures <= 20) std::fprintf(stderr, "FAILED %s\n", what.c_str());
}

// Ends the process if a training does not end.
class Watchdog {
public:
    Watchdog() : thread_([this] { watch(); }) {}
    ~Watchdog() {
        ended_ = true;
        thread_.join();
    }

    void begin(std::string what) {
        const std::lock_guard lock(naming_);
        what_ = std::move(what);
        ++begun_;
    }

private:
    static constexpr auto patience = std::chrono::minutes(3);

    void watch() {
        auto since = std::chrono::steady_clock::now();
        for (long seen = 0; !ended_; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
            if (begun_ != seen) {
                seen = begun_;
                since = std::chrono::steady_clock::now();
            } else if (std::chrono::steady_clock::now() - since > patience) {
                const std::lock_guard lock(naming_);
                std::fprintf(stderr, "STUCK in %s\n", what_.c_str());
                std::_Exit(3);
            }
        }
    }

    std::mutex naming_;
    std::string what_;
    std::atomic<long> begun_{0};
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

Watchdog* watchdog = nullptr;
long trainings = 0;

template <class Rows>
Trained<typename Rows::Value> watched(const Problem<Rows>& problem, const Case& a, const std::string& what) {
    watchdog->begin(described(a, what));
    ++trainings;
    const auto trained = train(problem, a);
    expect(trained.finite, described(a, what + ": not finite"));
    return trained;
}

template <class V>
void expect_close(const Trained<V>& a, const Trained<V>& b, double tolerance, const std::string& what) {
    double largest = 1.0, apart = 0.0;
    for (std::size_t i = 0; i < a.numbers.size(); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(b.numbers[i])));
        apart = std::max(apart, std::fabs(static_cast<double>(a.numbers[i]) - static_cast<double>(b.numbers[i])));
    }
    expect(apart <= tolerance * largest, what + ": apart by " + std::to_string(apart / tolerance) + " tolerances");
}

StrategySpec strategy(StrategyKind kind, int threads, CombinerKind combiner = CombinerKind::sum, int k = 0) {
    StrategySpec spec;
    spec.kind = kind;
    spec.threads = spec.cores = threads;
    spec.block_size = 7;
    spec.only_worth = false;  // problems are small
    spec.batch_size = 3;
    spec.combiner = combiner;
    spec.k = k;
    spec.frequent = 0.3;
    spec.sample = 40;
    return spec;
}

std::vector<StrategySpec> in_rounds(int threads) {
    std::vector<StrategySpec> all;
    for (const CombinerKind combiner :
         {CombinerKind::matrix, CombinerKind::walk, CombinerKind::sum, CombinerKind::mean, CombinerKind::adagrad})
        all.push_back(strategy(StrategyKind::rounds, threads, combiner));
    for (const int k : {3, 7, 15, 20})
        all.push_back(strategy(StrategyKind::rounds, threads, CombinerKind::projected, k));
    return all;
}

std::vector<StrategySpec> racy(int threads) {
    std::vector<StrategySpec> all;
    for (const StrategyKind kind :
         {StrategyKind::hogwild, StrategyKind::hogbatch, StrategyKind::round_robin, StrategyKind::parameter_server})
        all.push_back(strategy(kind, threads));
    for (const CombinerKind combiner : {CombinerKind::matrix, CombinerKind::sum})
        all.push_back(strategy(StrategyKind::asynchronous, threads, combiner));
    for (const int k : {3, 7, 15})
        all.push_back(strategy(StrategyKind::asynchronous, threads, CombinerKind::projected, k));
    return all;
}

std::vector<StrategySpec> curved(int threads) {
    std::vector<StrategySpec> all;
    for (const int refine : {-1, 0, 2}) {
        for (const double tolerance : {0.01, 1.0}) {
            StrategySpec spec = strategy(StrategyKind::curvature, threads, CombinerKind::sum, refine == 0 ? 3 : 0);
            spec.refine = refine;
            spec.tolerance = tolerance;
            all.push_back(spec);
            if (refine > 0) continue;
            spec.kind = StrategyKind::async_curvature;
            all.push_back(spec);
        }
    }
    return all;
}

bool is_curved(const StrategySpec& spec) {
    return spec.kind == StrategyKind::curvature || spec.kind == StrategyKind::async_curvature;
}

std::vector<StrategySpec> all_strategies(int threads) {
    std::vector<StrategySpec> all = in_rounds(threads);
    for (const StrategySpec& spec : racy(threads)) all.push_back(spec);
    for (const StrategySpec& spec : curved(threads)) all.push_back(spec);
    all.push_back(strategy(StrategyKind::sequential, 1));
    return all;
}

bool passive_aggressive(const Case& a) {
    return is_passive_aggressive({.kind = a.schedule});
}

// Whether the Python layer would let it through.
bool makes_sense(const Case& a) {
    const bool keeps_order = a.strategy.kind == StrategyKind::rounds || a.strategy.kind == StrategyKind::sequential;
    const bool plain = a.penalty == PenaltyKind::none || a.penalty == PenaltyKind::decay;
    if (a.strategy.kind == StrategyKind::curvature) {
        if (a.penalty == PenaltyKind::halves) return false;
        return a.penalty != PenaltyKind::truncate || a.strategy.refine <= 0;
    }
    if (!keeps_order && (!plain || a.average)) return false;
    const bool adagrad = a.strategy.kind == StrategyKind::rounds && a.strategy.combiner == CombinerKind::adagrad;
    return !(adagrad && a.penalty == PenaltyKind::halves) && !(a.average && a.penalty == PenaltyKind::halves);
}

// Draws what is not part of the product.
void vary(Case& a, std::mt19937& random) {
    const auto below = [&](unsigned n) { return random() % n; };
    const bool adagrad = a.strategy.combiner == CombinerKind::adagrad;
    constexpr ScheduleKind schedules[] = {ScheduleKind::constant, ScheduleKind::optimal, ScheduleKind::invscaling,
                                          ScheduleKind::linear};
    if (!adagrad) a.schedule = schedules[below(3)];
    const bool passive = a.loss == LossKind::hinge || a.loss == LossKind::epsilon_insensitive;
    if (passive && a.penalty == PenaltyKind::none && !adagrad && below(4) == 0)
        a.schedule = below(2) ? ScheduleKind::passive_aggressive1 : ScheduleKind::passive_aggressive2;
    constexpr OrderKind orders[] = {OrderKind::storage, OrderKind::full, OrderKind::window};
    a.order = orders[below(3)];
    a.holds_out = below(3) == 0;
    a.weighted = below(2) == 0;
    a.track_norms = below(2) == 0;
    a.soft_curvature = below(2) == 0 && !passive_aggressive(a);
    a.fit_intercept = below(4) != 0;
    a.average = a.penalty != PenaltyKind::halves && below(3) == 0;
    constexpr std::int64_t sizes[] = {1, 7, 16, 1000};
    a.strategy.block_size = sizes[below(4)];
    if (a.strategy.kind == StrategyKind::rounds && below(4) == 0) a.strategy.block_size = 0;
    if (a.strategy.kind == StrategyKind::rounds) a.strategy.cores = 1 + static_cast<int>(below(5));
    a.strategy.batch_size = sizes[below(4)];
    if (is_curved(a.strategy)) {
        if (passive_aggressive(a)) a.schedule = ScheduleKind::constant;
        if (a.strategy.refine < 0 && below(2) == 0) a.strategy.block_size = 0;
        a.strategy.cores = 1 + static_cast<int>(below(5));
        a.strategy.renumber = a.strategy.kind == StrategyKind::curvature && below(2) == 0;
        a.strategy.places = below(2) == 0 ? 3 : 4096;
    }
    if (!makes_sense(a)) a.average = false;
}

template <class Rows>
void run_product(unsigned seed) {
    std::mt19937 random(seed);
    for (const int classes : {1, 3, 9}) {
        const Problem<Rows> repeating({.classes = classes}), plain({.classes = classes, .repeats = false});
        for (const int threads : {2, 3, 5}) {
            for (const StrategySpec& spec : all_strategies(threads)) {
                for (const LossKind loss : losses) {
                    for (const PenaltyKind penalty : penalties) {
                        Case a{.strategy = spec, .loss = loss, .penalty = penalty};
                        if (!makes_sense(a) || (classes == 9 && random() % 8 != 0)) continue;
                        vary(a, random);
                        // none of these is for rows that repeat a feature
                        const bool unique = penalty == PenaltyKind::halves || passive_aggressive(a) || is_curved(spec);
                        watched(unique || random() % 2 == 0 ? plain : repeating, a, "product");
                    }
                }
            }
        }
    }
}

// One thread in rounds is sequential SGD, whatever the combiner; and so is OLS with the exact one on any number.
template <class Rows>
void compare_with_sequential() {
    const double tolerance = sizeof(typename Rows::Value) == 4 ? 1e-3 : 1e-10;
    for (const int classes : {1, 3}) {
        const Problem<Rows> problem({.classes = classes, .repeats = false});
        const auto compare = [&](Case a, const StrategySpec& spec, const std::string& what) {
            a.strategy = strategy(StrategyKind::sequential, 1);
            const auto sequential = watched(problem, a, what);
            a.strategy = spec;
            expect_close(watched(problem, a, what), sequential, tolerance, described(a, what));
        };
        std::mt19937 random(5);
        for (const LossKind loss : losses) {
            for (const PenaltyKind penalty : penalties) {
                for (const StrategySpec& spec : in_rounds(1)) {
                    if (spec.combiner == CombinerKind::adagrad) continue;  // brings step sizes of its own
                    Case a{.strategy = spec, .loss = loss, .penalty = penalty};
                    vary(a, random);
                    if (is_passive_aggressive({.kind = a.schedule}))
                        a.schedule = ScheduleKind::constant;  // on the kink
                    compare(a, a.strategy, "one thread");
                }
            }
        }
        if (sizeof(typename Rows::Value) == 4) continue;
        for (const int threads : {2, 3, 5, 100}) {
            for (const PenaltyKind penalty : {PenaltyKind::none, PenaltyKind::decay}) {
                for (const std::int64_t block : {1, 7, 0}) {
                    for (const bool average : {false, true}) {
                        Case a{.penalty = penalty, .average = average, .weighted = true, .holds_out = block == 7};
                        a.passes = 3;
                        for (const CombinerKind combiner : {CombinerKind::matrix, CombinerKind::walk}) {
                            StrategySpec spec = strategy(StrategyKind::rounds, threads, combiner);
                            spec.block_size = block;
                            spec.cores = std::min(threads, 4);
                            compare(a, spec, "exact OLS");
                            spec.keep = true;
                            if (combiner == CombinerKind::matrix && !average) compare(a, spec, "exact OLS, kept");
                        }
                    }
                }
            }
        }
    }
}

// Threads that share the features of dense rows make the sequential run's steps; also on more of them than cores, and
// on rows too short to be cut.
template <class V>
void compare_sliced() {
    using Rows = DenseRows<V>;
    const double tolerance = sizeof(V) == 4 ? 1e-3 : 1e-10;
    std::mt19937 random(11);
    for (const std::int64_t features : {19, 130, 333}) {
        for (const int classes : {1, 3, 9}) {
            for (const std::int64_t rows : {1, 15, 64, 203}) {
                const Problem<Rows> problem({.rows = rows, .features = features, .classes = classes});
                for (const LossKind loss : losses) {
                    for (const PenaltyKind penalty : {PenaltyKind::none, PenaltyKind::decay}) {
                        Case a{.strategy = strategy(StrategyKind::sequential, 1), .loss = loss, .penalty = penalty};
                        vary(a, random);
                        a.average = false;
                        if (passive_aggressive(a)) a.schedule = ScheduleKind::constant;  // on the kink
                        const auto sequential = watched(problem, a, "before sliced");
                        a.strategy = strategy(StrategyKind::sliced, 2 + static_cast<int>(random() % 5));
                        a.strategy.cores = 1 + static_cast<int>(random() % 6);
                        a.strategy.block_size = 8 << random() % 4;
                        const auto sliced = watched(problem, a, "sliced");
                        if (!gradient_jumps({loss, 0.0}))
                            expect_close(sliced, sequential, tolerance, described(a, "sliced"));
                        expect(watched(problem, a, "sliced again").numbers == sliced.numbers,
                               described(a, "sliced, twice"));
                    }
                }
            }
        }
    }
    const Problem<Rows> held({.rows = 40, .features = 200, .hold_all_out = true});
    Case a{.strategy = strategy(StrategyKind::sliced, 3), .holds_out = true};
    watched(held, a, "sliced, no rows");
}

// The same along a few directions: close to the sequential run, and the same in every run.
template <class Rows>
void compare_directions() {
    std::mt19937 random(12);
    for (const std::int64_t features : {130, 333}) {
        for (const int classes : {1, 3, 9}) {
            for (const std::int64_t rows : {1, 40, 600}) {
                const Problem<Rows> problem({.rows = rows, .features = features, .classes = classes, .repeats = false});
                for (const LossKind loss : losses) {
                    Case a{.strategy = strategy(StrategyKind::directions, 2 + static_cast<int>(random() % 5)),
                           .loss = loss,
                           .penalty = random() % 2 == 0 ? PenaltyKind::none : PenaltyKind::decay};
                    vary(a, random);
                    a.average = false;
                    a.strategy.cores = 1 + static_cast<int>(random() % 6);
                    a.strategy.block_size = random() % 2 == 0 ? 0 : 32 + static_cast<int>(random() % 64);
                    a.strategy.k = 8 << random() % 3;
                    const auto found = watched(problem, a, "directions");
                    expect(watched(problem, a, "directions again").numbers == found.numbers,
                           described(a, "directions, twice"));
                }
            }
        }
    }
    const Problem<Rows> held({.rows = 40, .features = 200, .hold_all_out = true});
    Case a{.strategy = strategy(StrategyKind::directions, 3), .holds_out = true};
    a.strategy.k = 8;
    watched(held, a, "directions, no rows");
}

// Fewer rows than threads, none at all, none with a feature; blocks larger than any data.
template <class Rows>
void run_corners() {
    for (const Shape& shape :
         {Shape{}, Shape{.rows = 1}, Shape{.rows = 2, .classes = 3}, Shape{.rows = 3, .features = 1},
          Shape{.rows = 9, .entries = 0, .classes = 2}, Shape{.rows = 8, .hold_all_out = true}}) {
        const Problem<Rows> problem(shape);
        for (const StrategySpec& spec : all_strategies(5)) {
            for (const bool frequent : {true, false}) {
                Case a{.strategy = spec, .loss = LossKind::log_loss, .penalty = PenaltyKind::decay};
                a.holds_out = shape.hold_all_out;
                a.track_norms = true;
                if (!frequent) a.strategy.frequent = 2.0;  // no feature is
                watched(problem, a, "corner");
                a.strategy.block_size = std::numeric_limits<std::int64_t>::max();
                a.strategy.batch_size = std::numeric_limits<std::int64_t>::max();
                watched(problem, a, "corner, largest block");
            }
        }
    }
}

// Where the decay is so strong that the scale of shared weights leaves the range of numbers within a pass.
template <class Rows>
void run_strong_decay() {
    const double tolerance = sizeof(typename Rows::Value) == 4 ? 1e-3 : 1e-9;
    const Problem<Rows> problem({.rows = 1500, .features = 30, .classes = 2});
    for (const StrategySpec& spec : racy(1)) {
        const bool frees_rows = spec.kind == StrategyKind::hogwild || spec.kind == StrategyKind::hogbatch;
        Case a{.loss = LossKind::log_loss, .penalty = PenaltyKind::decay, .step_size = 0.1};
        a.l2 = frees_rows ? 0.8 : 6.0;
        a.strategy = strategy(StrategyKind::sequential, 1);
        const auto sequential = watched(problem, a, "strong decay");
        for (const int threads : {1, 3}) {
            a.strategy = spec;
            a.strategy.threads = threads;
            a.strategy.batch_size = 1;
            const auto trained = watched(problem, a, "strong decay");
            if (threads == 1) expect_close(trained, sequential, tolerance, described(a, "strong decay"));
        }
        a.l2 = 9.99;
        a.strategy.block_size = 1000;
        bool refused = false;
        try {
            train(problem, a);
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        const bool shares = frees_rows || (Rows::sparse && spec.kind == StrategyKind::asynchronous);
        expect(refused == shares, described(a, "vanishing weights"));
    }
}

// Passes that end before their time: told to, and by an exception. Asking happens every 20 ms, so they are repeated
// until it does.
template <class Rows>
void run_stops(const Problem<Rows>& problem, std::vector<StrategySpec> (*strategies)(int threads)) {
    std::mt19937 random(3);
    for (const int threads : {2, 5}) {
        for (const StrategySpec& spec : strategies(threads)) {
            for (const bool throws : {false, true}) {
                Case a{.strategy = spec, .loss = LossKind::hinge, .penalty = PenaltyKind::decay, .step_size = 0.005};
                a.soft_curvature = true;
                a.passes = 50;
                unsigned left = 1 + random() % 3;
                bool thrown = false;
                watchdog->begin(described(a, "stops"));
                const ShouldStop should_stop = [&] {
                    if (left == 0 || --left > 0) return false;
                    if (throws) throw std::runtime_error("stop");
                    return true;
                };
                try {
                    expect(train(problem, a, should_stop).finite, described(a, "stops: not finite"));
                } catch (const std::runtime_error&) {
                    thrown = true;
                }
                ++trainings;
                if (left == 0) expect(thrown == throws, described(a, "stops: exception lost"));
            }
        }
    }
}

// What shared weights are when a pass is stopped is what the rows so far have made of them, decay included.
void run_stopped_decay() {
    using Rows = SparseRows<double, std::int32_t>;
    const Problem<Rows> problem({.rows = 60000, .features = 40});
    for (const StrategyKind kind : {StrategyKind::hogwild, StrategyKind::hogbatch, StrategyKind::round_robin}) {
        Case a{.strategy = strategy(kind, 1), .penalty = PenaltyKind::decay, .l2 = 0.05, .passes = 1};
        a.strategy.batch_size = 1;
        watchdog->begin(described(a, "stopped decay"));
        const auto stopped = train(problem, a, [] { return true; });
        Problem<Rows> begun = problem;
        begun.shape.rows = stopped.rows;
        a.strategy = strategy(StrategyKind::sequential, 1);
        expect_close(stopped, watched(begun, a, "stopped decay"), 1e-9, described(a, "stopped decay"));
    }
}

// More features than Q has rows of, merged in several slices, each under its own lock.
void run_slices() {
    using Rows = SparseRows<float, std::int32_t>;
    for (const int classes : {1, 3}) {
        const Problem<Rows> problem(
            {.rows = 3000, .features = 20000, .entries = 12, .classes = classes, .repeats = false});
        for (const int threads : {2, 5}) {
            for (const std::int64_t block : {0, 7, 100}) {
                Case a{.strategy = strategy(StrategyKind::async_curvature, threads), .loss = LossKind::log_loss};
                a.strategy.refine = -1;
                a.strategy.block_size = block;
                a.penalty = block == 7 ? PenaltyKind::none : PenaltyKind::decay;
                watched(problem, a, "slices");
            }
        }
    }
}

// Rows as if they were in a file, which fits in memory or not, and trainings that go on from what was saved.
template <class Rows>
void run_files() {
    for (const int classes : {1, 3}) {
        const Problem<Rows> problem({.rows = 3000, .features = 60, .entries = 10, .classes = classes});
        for (const int threads : {1, 3}) {
            const std::vector<StrategySpec> all = all_strategies(threads);
            const std::size_t with_bits = in_rounds(threads).size();
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (all[i].combiner == CombinerKind::matrix && threads == 1) continue;
                Case a{.strategy = all[i], .loss = LossKind::log_loss, .penalty = PenaltyKind::decay, .passes = 3};
                a.strategy.block_size = 50;
                const bool same = i < with_bits || all[i].kind == StrategyKind::curvature || threads == 1;
                const auto expected = watched(problem, a, "in memory");
                for (const OrderKind order : {OrderKind::storage, OrderKind::blocks}) {
                    Case other = a;
                    other.order = order;
                    other.mapped = true;
                    other.memory = order == OrderKind::blocks ? 1000 : std::int64_t{1} << 62;
                    const auto trained = watched(problem, other, "mapped");
                    if (same && order == a.order)
                        expect(trained.numbers == expected.numbers, described(a, "mapped: other bits"));
                }
                if (!same || all[i].kind == StrategyKind::async_curvature || all[i].kind == StrategyKind::asynchronous)
                    continue;
                a.resumes = true;
                expect(watched(problem, a, "resumed").numbers == expected.numbers, described(a, "resumed: other bits"));
            }
        }
    }
}

// Kept combiners are those of a whole pass, also where the first one was stopped.
void run_stopped_keep() {
    using Rows = DenseRows<double>;
    const Problem<Rows> problem({.rows = 3000, .features = 12, .classes = 3});
    Case a{.strategy = strategy(StrategyKind::rounds, 3, CombinerKind::matrix), .passes = 3};
    a.strategy.keep = true;
    watchdog->begin(described(a, "stopped keep"));
    int asked = 0;
    expect(train(problem, a, [&] { return ++asked == 1; }).finite, described(a, "stopped keep: not finite"));
}

// Steps so long that blocks of half a pass are the best: what two blocks alone have is measured and taken.
template <class Rows>
void run_long_blocks() {
    const Problem<Rows> problem({.rows = 12000, .features = 60, .entries = 8, .repeats = false});
    StrategySpec spec = strategy(StrategyKind::curvature, 2);
    spec.block_size = 0;
    spec.refine = -1;
    spec.tolerance = 0.05;
    for (const bool resumes : {false, true}) {
        Case a{.strategy = spec, .loss = LossKind::log_loss, .order = OrderKind::window, .step_size = 2.0, .passes = 8};
        a.resumes = resumes;
        expect(watched(problem, a, "long blocks").merges == 2, described(a, "long blocks: there are none"));
    }
}

// Merges that are never good enough, so that rounds are refined, whole or with rare features that wait; and stopped
// between two phases of one.
template <class Rows>
void run_swept() {
    const Problem<Rows> problem({.rows = 6000, .features = 300, .entries = 5, .repeats = false});
    StrategySpec spec = strategy(StrategyKind::curvature, 5);
    spec.block_size = 0;
    spec.refine = -1;
    spec.tolerance = 1e-3;
    spec.places = 32;
    for (const bool renumber : {false, true}) {
        for (const bool resumes : {false, true}) {
            spec.renumber = renumber;
            Case a{
                .strategy = spec, .loss = LossKind::log_loss, .order = OrderKind::full, .step_size = 0.5, .passes = 4};
            a.resumes = resumes;
            expect(watched(problem, a, "swept").sweeps > 0, described(a, "swept: no round is"));
            for (int first = 1; first < 40; first += 3) {
                int asked = 0;
                watchdog->begin(described(a, "stopped, swept"));
                ++trainings;
                expect(train(problem, a, [&] { return ++asked == first; }).finite, described(a, "stopped: not finite"));
            }
        }
    }
}

// Thousands of rounds and turns, more threads than cores, and other threads that keep those busy.
void run_stress() {
    using Rows = SparseRows<float, std::int32_t>;
    std::atomic<bool> ended{false};
    std::vector<std::thread> burners;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
        burners.emplace_back([&] {
            for (volatile unsigned work = 0; !ended.load(std::memory_order_relaxed);) work = work + 1;
        });
    const Problem<Rows> problem({.rows = 3000, .features = 50, .entries = 3});
    for (const int threads : {2, 3, 16}) {
        std::vector<StrategySpec> all = in_rounds(threads);
        all.push_back(strategy(StrategyKind::round_robin, threads));
        all.push_back(strategy(StrategyKind::asynchronous, threads, CombinerKind::projected, 7));
        all.push_back(strategy(StrategyKind::async_curvature, threads));
        for (StrategySpec& spec : all) {
            if (spec.combiner == CombinerKind::matrix) continue;
            spec.block_size = spec.batch_size = 1;
            Case a{.strategy = spec, .loss = LossKind::hinge, .step_size = 0.001, .soft_curvature = true, .passes = 1};
            expect(watched(problem, a, "stress").rows == problem.shape.rows, described(a, "stress: rows lost"));
        }
    }
    ended = true;
    for (std::thread& burner : burners) burner.join();
}

template <class... Rows>
struct Each {
    static void run() {
        unsigned seed = 0;
        (run_product<Rows>(++seed), ...);
        (compare_with_sequential<Rows>(), ...);
        (run_corners<Rows>(), ...);
        (run_strong_decay<Rows>(), ...);
    }
};

// All parts, or the one of this name.
int run(const std::string& wanted) {
    Watchdog dog;
    watchdog = &dog;
    const auto begun = std::chrono::steady_clock::now();
    const auto say = [&](const char* what) {
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        std::printf("%6.1f s  %ld trainings, %d failures: %s\n", took.count(), trainings, failures, what);
        std::fflush(stdout);
    };
    const auto part = [&](const char* name, auto&& work) {
        if (!wanted.empty() && wanted != name) return;
        work();
        say(name);
    };
    say(kernels().name);
    part("products", [] { ForAllRows<Each>::run(); });
    part("sliced", [] {
        compare_sliced<float>();
        compare_sliced<double>();
    });
    part("directions", [] {
        compare_directions<DenseRows<float>>();
        compare_directions<DenseRows<double>>();
        compare_directions<SparseRows<float, std::int32_t>>();
        compare_directions<SparseRows<double, std::int64_t>>();
    });
    part("stops", [] {
        const Shape narrow{.rows = 4000, .features = 60, .entries = 10}, wide{.rows = 4000, .features = 300};
        run_stops(Problem<SparseRows<float, std::int32_t>>(narrow), all_strategies);
        run_stops(Problem<DenseRows<double>>(narrow), all_strategies);
        run_stops(Problem<DenseRows<double>>(wide),
                  [](int threads) { return std::vector<StrategySpec>(4, strategy(StrategyKind::sliced, threads)); });
        run_stops(Problem<DenseRows<double>>(wide), [](int threads) {
            StrategySpec directions = strategy(StrategyKind::directions, threads);
            directions.k = 16;
            directions.block_size = 64;
            return std::vector<StrategySpec>(4, directions);
        });
        run_stopped_decay();
        run_stopped_keep();
    });
    part("slices", [] { run_slices(); });
    part("files", [] {
        run_files<SparseRows<float, std::int32_t>>();
        run_files<DenseRows<double>>();
    });
    part("readers", [] { expect(readers_agree(), "readers on one thread and on four"); });
    part("long", [] {
        run_long_blocks<DenseRows<float>>();
        run_long_blocks<DenseRows<double>>();
    });
    part("swept", [] {
        run_swept<SparseRows<float, std::int32_t>>();
        run_swept<SparseRows<double, std::int64_t>>();
        run_swept<DenseRows<float>>();
    });
    part("stress", [] { run_stress(); });
    return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace symsgd::tests

int main(int count, char** words) {
    return symsgd::tests::run(count > 1 ? words[1] : "");
}

// Arrays in, results out. Everything has been checked by symsgd.training; this file converts and lets go of the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "bind_mapping.hpp"
#include "bind_text.hpp"
#include "bind_twins.hpp"
#include "symsgd/check.hpp"
#include "symsgd/mean_block.hpp"
#include "symsgd/replica.hpp"
#include "symsgd/team.hpp"
#include "symsgd/train.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace symsgd;

namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;
using OutputDoubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
const T* pointer(const AnyArray& array) {
    return static_cast<const T*>(array.data());
}

// A view of rows together with the arrays it looks into.
struct Rows {
    AnyRows view;
    std::int64_t entries;
    std::vector<AnyArray> owners;
};

template <class V>
Rows sparse_rows_of(const AnyArray& start, const AnyArray& index, const AnyArray& value, std::int64_t features) {
    const auto rows = static_cast<std::int64_t>(start.size()) - 1;
    const auto entries = static_cast<std::int64_t>(std::min(index.size(), value.size()));
    std::vector<AnyArray> owners{start, index, value};
    const bool wide = start.dtype() == nb::dtype<std::int64_t>();
    if (!wide && start.dtype() != nb::dtype<std::int32_t>())
        throw std::invalid_argument("indptr must be int32 or int64");
    const RowStarts starts = wide ? RowStarts(pointer<std::int64_t>(start)) : RowStarts(pointer<std::int32_t>(start));
    if (index.dtype() == nb::dtype<std::int32_t>())
        return {SparseRows<V, std::int32_t>{starts, pointer<std::int32_t>(index), pointer<V>(value), rows, features},
                entries, std::move(owners)};
    if (index.dtype() == nb::dtype<std::int64_t>())
        return {SparseRows<V, std::int64_t>{starts, pointer<std::int64_t>(index), pointer<V>(value), rows, features},
                entries, std::move(owners)};
    throw std::invalid_argument("indices must be int32 or int64");
}

Rows sparse_rows(const AnyArray& start, const AnyArray& index, const AnyArray& value, std::int64_t features) {
    if (value.dtype() == nb::dtype<float>()) return sparse_rows_of<float>(start, index, value, features);
    if (value.dtype() == nb::dtype<double>()) return sparse_rows_of<double>(start, index, value, features);
    throw std::invalid_argument("values must be float32 or float64");
}

Rows dense_rows(const AnyArray& values) {
    const auto rows = static_cast<std::int64_t>(values.shape(0));
    const auto features = static_cast<std::int64_t>(values.shape(1));
    if (values.dtype() == nb::dtype<float>())
        return {DenseRows<float>{pointer<float>(values), rows, features}, rows * features, {values}};
    if (values.dtype() == nb::dtype<double>())
        return {DenseRows<double>{pointer<double>(values), rows, features}, rows * features, {values}};
    throw std::invalid_argument("values must be float32 or float64");
}

// (finite, strictly increasing indices, what is damaged or "")
std::tuple<bool, bool, std::string> check_rows(const Rows& rows, int threads) {
    const nb::gil_scoped_release release;
    const Checked result = std::visit(
        [&](const auto& view) -> Checked {
            if constexpr (std::remove_cvref_t<decltype(view)>::sparse)
                return check(view, rows.entries, threads);
            else
                return {.finite = all_finite(view.value, rows.entries, threads)};
        },
        rows.view);
    return {result.finite, result.increasing, result.damage};
}

Column column(const std::optional<AnyArray>& array) {
    if (!array) return {};
    const nb::dlpack::dtype type = array->dtype();
    for (const auto& [known, number] : {std::pair{nb::dtype<std::int8_t>(), Number::int8},
                                        {nb::dtype<std::uint8_t>(), Number::uint8},
                                        {nb::dtype<std::int16_t>(), Number::int16},
                                        {nb::dtype<std::int32_t>(), Number::int32},
                                        {nb::dtype<std::int64_t>(), Number::int64},
                                        {nb::dtype<float>(), Number::float32},
                                        {nb::dtype<double>(), Number::float64}})
        if (type == known) return {array->data(), number};
    throw std::invalid_argument("labels and weights must be integers or floats");
}

template <class Named>
Named named(const std::string& what, const std::string& name,
            std::initializer_list<std::pair<const char*, Named>> known) {
    for (const auto& [key, value] : known)
        if (name == key) return value;
    throw std::invalid_argument("unknown " + what + " " + name);
}

template <class T>
nb::ndarray<nb::numpy, T> new_array(T* data, std::initializer_list<std::size_t> shape) {
    const nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
    return nb::ndarray<nb::numpy, T>(data, shape, owner);
}

class PyTraining {
    using Either = std::variant<std::unique_ptr<Training<float>>, std::unique_ptr<Training<double>>>;

    template <class F>
    auto visit(F&& f) {
        return std::visit([&](auto& training) { return f(*training); }, training_);
    }

public:
    PyTraining(const Rows& rows, const TrainingSpec& spec, std::vector<AnyArray> owners) : owners_(std::move(owners)) {
        owners_.insert(owners_.end(), rows.owners.begin(), rows.owners.end());
        const nb::gil_scoped_release release;
        training_ = std::visit([&](const auto& view) -> Either { return make_training(view, spec); }, rows.view);
    }

    // Raises what a signal handler raises.
    PassSums run_pass() {
        PassSums sums;
        bool raised = false;
        {
            const nb::gil_scoped_release release;
            sums = visit([&](auto& training) {
                return training.run_pass([&] {
                    const nb::gil_scoped_acquire acquire;
                    raised = raised || PyErr_CheckSignals() != 0;
                    return raised;
                });
            });
        }
        if (raised) throw nb::python_error();
        return sums;
    }

    void keep_classes(const std::vector<int>& classes) {
        visit([&](auto& training) { training.keep_classes(classes); });
    }

    std::vector<std::int64_t> active() {
        return visit([](auto& training) { return training.active(); });
    }

    void set_step_size(int c, double step_size) {
        visit([&](auto& training) { training.set_step_size(c, step_size); });
    }

    double step_size(int c) {
        return visit([&](auto& training) { return training.step_size(c); });
    }

    double t() {
        return visit([](auto& training) { return training.model().t(); });
    }

    // Writes the classes in training to their rows of `coef` and `intercept`; false if anything is not finite.
    bool store(const Output& coef, const OutputDoubles& intercept) {
        const nb::gil_scoped_release release;
        return visit([&]<class V>(Training<V>& training) {
            return training.model().store(static_cast<V*>(coef.data()), intercept.data(), training.active());
        });
    }

    void load(const AnyArray& coef, const Doubles& intercept) {
        visit([&]<class V>(Training<V>& training) { training.model().load(pointer<V>(coef), intercept.data()); });
    }

    void store_average(const Output& coef, const OutputDoubles& intercept) {
        const nb::gil_scoped_release release;
        visit([&]<class V>(Training<V>& training) {
            const double steps = std::max(1.0, training.averaged_steps());
            training.model().store_average(static_cast<V*>(coef.data()), intercept.data(), training.active(), steps);
        });
    }

    void load_average(const AnyArray& coef, const Doubles& intercept) {
        visit([&]<class V>(Training<V>& training) {
            training.model().load_average(pointer<V>(coef), intercept.data(), training.averaged_steps());
        });
    }

    // AdaGrad's sums of squared gradients; a ValueError of a training that has none.
    void store_gathered(const Output& coef, const OutputDoubles& intercept) {
        visit([&]<class V>(Training<V>& training) {
            if (!training.model().gathers()) throw std::invalid_argument("this training gathers no squared gradients");
            training.model().store_gathered(static_cast<V*>(coef.data()), intercept.data(), training.active());
        });
    }

    void load_gathered(const AnyArray& coef, const Doubles& intercept) {
        visit([&]<class V>(Training<V>& training) {
            if (!training.model().gathers()) throw std::invalid_argument("this training gathers no squared gradients");
            training.model().load_gathered(pointer<V>(coef), intercept.data());
        });
    }

    nb::bytes save() {
        const std::string state = visit([](auto& training) { return training.save(); });
        return nb::bytes(state.data(), state.size());
    }

    void resume(const nb::bytes& state) {
        visit([&](auto& training) { training.resume({state.c_str(), state.size()}); });
    }

    double averaged_steps() {
        return visit([](auto& training) { return training.averaged_steps(); });
    }

private:
    Either training_;
    std::vector<AnyArray> owners_;
};

// coef: classes × features in the type of the rows. Returns rows × classes.
template <class R>
nb::object decide_rows(const R& view, const AnyArray& coef, const Doubles& intercept, int threads) {
    using V = typename R::Value;
    const auto classes = static_cast<int>(intercept.size());
    const auto rows = static_cast<std::size_t>(view.rows);
    V* scores = new V[rows * intercept.size()];
    auto array = new_array(scores, {rows, intercept.size()});
    {
        const nb::gil_scoped_release release;
        const V* weights = pointer<V>(coef);
        const int stride = stride_for(classes);
        Array<V> packed;
        if (stride != 1) {
            packed = Array<V>(static_cast<std::size_t>(view.features) * static_cast<std::size_t>(stride));
            in_pieces(view.features, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
                for (int c = 0; c < classes; ++c)
                    for (std::int64_t i = begin; i < end; ++i)
                        packed[static_cast<std::size_t>(i * stride + c)] = weights[c * view.features + i];
            });
            weights = packed.data();
        }
        const auto decide = kernels().of_rows<R>().decide;
        in_pieces(view.rows, 1024, threads, [&](std::int64_t begin, std::int64_t end) {
            decide(view, begin, end, weights, classes, stride, intercept.data(), scores);
        });
    }
    return nb::cast(array);
}

nb::object decide(const Rows& rows, const AnyArray& coef, const Doubles& intercept, int threads) {
    return std::visit([&](const auto& view) { return decide_rows(view, coef, intercept, threads); }, rows.view);
}

// value, g and h at (p, y), for the tests of the losses
std::tuple<double, double, double> evaluate_loss(const std::string& name, double parameter, double p, double y,
                                                 bool single) {
    return visit(loss_named(name, parameter), [&](const auto& loss) -> std::tuple<double, double, double> {
        if (single) {
            const auto q = static_cast<float>(p), z = static_cast<float>(y);
            return {loss.value(p, y), loss.gradient(q, z), loss.curvature(q, z)};
        }
        return {loss.value(p, y), loss.gradient(p, y), loss.curvature(p, y)};
    });
}

OrderKind order_named(const std::string& name) {
    return named<OrderKind>("order", name,
                            {{"storage", OrderKind::storage},
                             {"full", OrderKind::full},
                             {"window", OrderKind::window},
                             {"blocks", OrderKind::blocks}});
}

// The rows of pass 0 … passes − 1 in turn, for the tests of the order.
std::vector<std::vector<std::int64_t>> write_order(const std::string& kind, std::int64_t rows, std::uint32_t seed,
                                                   int passes) {
    Order order(order_named(kind), rows, seed, nullptr);
    std::vector<std::vector<std::int64_t>> written;
    for (int pass = 0; pass < passes; ++pass) {
        order.begin_pass(pass);
        auto& out = written.emplace_back(static_cast<std::size_t>(rows));
        order.write(0, rows, out.data());
    }
    return written;
}

// The order of the passes for those who train elsewhere than in the core (src/symsgd/gpu).
class PyOrder {
public:
    PyOrder(const std::string& kind, std::int64_t rows, std::uint32_t seed, const std::optional<Bytes>& held_out)
        : held_out_(held_out), order_(order_named(kind), rows, seed, held_out ? held_out->data() : nullptr) {}

    // The rows of a pass, 0, 1, …; a full order is asked for in turn, pass after pass.
    nb::object write(std::int64_t pass) {
        std::vector<std::int64_t> rows(static_cast<std::size_t>(order_.places()));
        std::unique_ptr<std::int32_t[]> narrow;
        std::size_t count = 0;
        {
            const nb::gil_scoped_release release;
            order_.begin_pass(pass);
            count = order_.write(0, order_.places(), rows.data());
            narrow = std::make_unique<std::int32_t[]>(count);
            std::copy_n(rows.begin(), count, narrow.get());
        }
        return nb::cast(new_array(narrow.release(), {count}));
    }

private:
    std::optional<Bytes> held_out_;
    Order order_;
};

// The columns A that a block's replica starts with: rows × k (see projection_seeds), for the tests of the combiners.
nb::object write_projection(std::uint32_t seed, std::int64_t pass, std::int64_t block, int part, std::int64_t rows,
                            int k) {
    auto* out = new double[static_cast<std::size_t>(rows * k)];
    auto array = new_array(out, {static_cast<std::size_t>(rows), static_cast<std::size_t>(k)});
    std::uint32_t seeds[16];
    projection_seeds(seed, pass, block, part, seeds);
    kernels().of_models<double>().draw_projection(seeds, rows, k, k, k, out);
    return nb::cast(array);
}

// A block that began at `start` and ended at `end` is merged into a model that is at `now` by then (mean_block.hpp), H
// being that of the rows of `sample`, their last entry the intercept's; the first `places` features are in Q. Returns
// the merged model, Q, Λ and c, for the tests of the merge.
std::tuple<nb::object, nb::object, std::vector<double>, std::vector<double>> merge_by_curvature(
    const AnyArray& sample, std::int64_t places, int rank, const std::vector<double>& start,
    const std::vector<double>& end, const std::vector<double>& now, double steps, double keep) {
    const auto rows = static_cast<std::int64_t>(sample.shape(0)), last = static_cast<std::int64_t>(sample.shape(1)) - 1;
    CurvatureSample<double> known;
    CurvatureSample<double>::Part& all_rows = known.parts.emplace_back();
    known.diagonal.assign(static_cast<std::size_t>(last) + 1, 0.0);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j <= last; ++j) {
            const double x = pointer<double>(sample)[i * (last + 1) + j];
            known.diagonal[static_cast<std::size_t>(j)] += x * x;
            if (x == 0.0 || (j >= places && j < last)) continue;
            all_rows.place.push_back(static_cast<std::int32_t>(std::min(j, places)));
            all_rows.value.push_back(x);
        }
        all_rows.start.push_back(static_cast<std::int64_t>(all_rows.place.size()));
    }
    std::vector<std::int64_t> features;  // that Q has rows of
    for (std::int64_t j = 0; j < places; ++j) features.push_back(j);
    const CurvatureKernels<double>& curvature = kernels().of_curvature<double>();
    Spectrum<double> spectrum;
    spectrum.reset(places, rank);
    Crew crew;
    crew.run(1, [&](Crew::Member& member) { spectrum.estimate(member, known, features, curvature, 0); });
    MeanBlock<double> block;
    block.renew(spectrum, 0, last, {steps, keep});

    features.push_back(last);
    const auto size = end.size(), in_q = features.size();
    std::vector<double> u[2], v[2];  // of what the block has done, and of what others have
    std::vector<double> part(in_q), lambda, rest;
    for (const int turn : {0, 1}) {
        const std::vector<double>& to = turn == 0 ? end : now;
        for (std::size_t i = 0; i < size; ++i) v[turn].push_back(to[i] - start[i]);
        for (std::size_t k = 0; k < in_q; ++k) part[k] = v[turn][static_cast<std::size_t>(features[k])];
        to_directions(spectrum, curvature, part, u[turn]);
        from_directions(spectrum, curvature, u[turn], part);
        for (std::size_t k = 0; k < in_q; ++k) v[turn][static_cast<std::size_t>(features[k])] -= part[k];
    }
    for (std::size_t j = 0; j < u[0].size(); ++j) u[0][j] += keep * block.sharp(j) * u[1][j];
    from_directions(spectrum, curvature, u[0], part);
    auto* merged = new double[size];
    auto merged_array = new_array(merged, {size});
    for (std::size_t i = 0; i < size; ++i)
        merged[i] = start[i] + v[0][i] + (i + 1 < size ? keep : 1.0) * block.flat()[i] * v[1][i];
    for (std::size_t k = 0; k < in_q; ++k) merged[features[k]] += part[k];

    const auto columns = static_cast<std::size_t>(spectrum.rank());
    auto* q = new double[size * columns]();
    auto q_array = new_array(q, {size, columns});
    for (std::size_t k = 0; k < in_q; ++k)
        std::copy_n(spectrum.q(static_cast<std::int64_t>(k)), columns,
                    q + static_cast<std::size_t>(features[k]) * columns);
    for (int j = 0; j < spectrum.rank(); ++j) lambda.push_back(spectrum.lambda(j));
    for (std::int64_t j = 0; j <= last; ++j) rest.push_back(spectrum.rest(j));
    return {nb::cast(merged_array), nb::cast(q_array), lambda, rest};
}

StrategySpec make_strategy(const std::string& kind, int threads, int cores, std::int64_t block_size,
                           std::int64_t batch_size, const std::string& combiner, int k, bool keep, int refine,
                           double tolerance, bool renumber, int places, bool only_worth, double frequent,
                           std::int64_t sample) {
    return {named<StrategyKind>("strategy", kind,
                                {{"sequential", StrategyKind::sequential},
                                 {"hogwild", StrategyKind::hogwild},
                                 {"hogbatch", StrategyKind::hogbatch},
                                 {"round-robin", StrategyKind::round_robin},
                                 {"rounds", StrategyKind::rounds},
                                 {"curvature", StrategyKind::curvature},
                                 {"parameter-server", StrategyKind::parameter_server},
                                 {"asynchronous", StrategyKind::asynchronous},
                                 {"async-curvature", StrategyKind::async_curvature},
                                 {"sliced", StrategyKind::sliced},
                                 {"directions", StrategyKind::directions}}),
            threads,
            cores,
            block_size,
            batch_size,
            named<CombinerKind>("combiner", combiner,
                                {{"matrix", CombinerKind::matrix},
                                 {"walk", CombinerKind::walk},
                                 {"projected", CombinerKind::projected},
                                 {"sum", CombinerKind::sum},
                                 {"mean", CombinerKind::mean},
                                 {"adagrad-mean", CombinerKind::adagrad}}),
            k,
            keep,
            refine,
            tolerance,
            renumber,
            places,
            only_worth,
            frequent,
            sample};
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The native core of symsgd. Called by symsgd.training, and by symsgd.data for what concerns files.";
    bind_mapping(m);
    bind_text(m);
    bind_twins(m);

    nb::class_<Rows>(m, "Rows");
    m.def("sparse_rows", &sparse_rows, "indptr"_a, "indices"_a, "data"_a, "n_features"_a);
    m.def("dense_rows", &dense_rows, "values"_a);
    m.def("check_rows", &check_rows, "rows"_a, "n_threads"_a);
    m.def("decide", &decide,
          nb::sig("def decide(rows: Rows, coef: NDArray, intercept: NDArray, n_threads: int) -> NDArray"), "rows"_a,
          "coef"_a, "intercept"_a, "n_threads"_a);
    m.def("evaluate_loss", &evaluate_loss, "name"_a, "parameter"_a, "p"_a, "y"_a, "single"_a);
    m.def("write_order", &write_order, "kind"_a, "n_rows"_a, "seed"_a, "n_passes"_a);
    nb::class_<PyOrder>(m, "Order")
        .def(nb::init<const std::string&, std::int64_t, std::uint32_t, const std::optional<Bytes>&>(), "kind"_a,
             "n_rows"_a, "seed"_a, "held_out"_a.none() = nb::none())
        .def("write", &PyOrder::write, nb::sig("def write(self, pass_number: int) -> NDArray[numpy.int32]"),
             "pass_number"_a);
    m.def(
        "write_projection", &write_projection,
        nb::sig(
            "def write_projection(seed: int, pass_number: int, block: int, part: int, n_rows: int, k: int) -> NDArray"),
        "seed"_a, "pass_number"_a, "block"_a, "part"_a, "n_rows"_a, "k"_a);
    m.def("merge_by_curvature", &merge_by_curvature,
          nb::sig("def merge_by_curvature(sample: NDArray, places: int, rank: int, start: Sequence[float], "
                  "end: Sequence[float], now: Sequence[float], steps: float, keep: float) -> "
                  "tuple[NDArray, NDArray, list[float], list[float]]"),
          "sample"_a, "places"_a, "rank"_a, "start"_a, "end"_a, "now"_a, "steps"_a, "keep"_a);
    m.def("instruction_set", [] { return std::string(kernels().name); });

    nb::class_<StrategySpec>(m, "Strategy")
        .def(
            "__init__",
            [](StrategySpec* self, const std::string& kind, int threads, int cores, std::int64_t block_size,
               std::int64_t batch_size, const std::string& combiner, int k, bool keep, int refine, double tolerance,
               bool renumber, int places, bool only_worth, double frequent, std::int64_t sample) {
                new (self)
                    StrategySpec(make_strategy(kind, threads, cores, block_size, batch_size, combiner, k, keep, refine,
                                               tolerance, renumber, places, only_worth, frequent, sample));
            },
            nb::kw_only(), "kind"_a, "threads"_a = 1, "cores"_a = 1, "block_size"_a = 0, "batch_size"_a = 1,
            "combiner"_a = "sum", "k"_a = 0, "keep"_a = false, "refine"_a = 0, "tolerance"_a = 0.0,
            "renumber"_a = false, "places"_a = 0, "only_worth"_a = true, "frequent"_a = 0.0, "sample"_a = 0);

    nb::class_<PassSums>(m, "PassSums")
        .def_ro("rows", &PassSums::rows)
        .def_ro("merges", &PassSums::merges)
        .def_ro("rank", &PassSums::rank)
        .def_ro("sweeps", &PassSums::sweeps)
        .def_ro("error", &PassSums::error)
        .def_ro("alone", &PassSums::alone)
        .def_ro("caught", &PassSums::caught)
        .def_ro("loss", &PassSums::loss)
        .def_ro("objective", &PassSums::objective);

    nb::class_<PyTraining>(m, "Training")
        .def(
            "__init__",
            [](PyTraining* self, const Rows& rows, const std::string& target, const std::optional<AnyArray>& labels,
               double positive, const std::optional<AnyArray>& sample_weight, std::vector<double> positive_weight,
               std::vector<double> negative_weight, const std::string& loss, double loss_parameter,
               const std::string& penalty, double l2, double l1, const std::string& schedule, double step_size,
               double power, double schedule_alpha, double schedule_first, double schedule_steps, bool fit_intercept,
               double intercept_decay, bool one_class, double intercept_pull, double average_from, bool track_norms,
               bool repeats, bool soft_curvature, const StrategySpec& strategy, const std::string& order,
               std::uint32_t seed, const std::optional<Bytes>& held_out, double t, bool mapped, std::int64_t memory) {
                TrainingSpec spec;
                spec.targets.kind = named<TargetKind>(
                    "target", target,
                    {{"real", TargetKind::real}, {"binary", TargetKind::binary}, {"classes", TargetKind::classes}});
                spec.targets.labels = column(labels);
                spec.targets.positive = positive;
                spec.targets.sample_weight = column(sample_weight);
                for (std::size_t c = 0; c < positive_weight.size(); ++c)
                    spec.targets.class_ids.push_back(static_cast<double>(c));
                spec.targets.positive_weight = std::move(positive_weight);
                spec.targets.negative_weight = std::move(negative_weight);
                spec.rule.loss = loss_named(loss, loss_parameter);
                spec.rule.penalty = {named<PenaltyKind>("penalty", penalty,
                                                        {{"none", PenaltyKind::none},
                                                         {"decay", PenaltyKind::decay},
                                                         {"truncate", PenaltyKind::truncate},
                                                         {"halves", PenaltyKind::halves}}),
                                     l2, l1};
                spec.rule.schedule = {named<ScheduleKind>("schedule", schedule,
                                                          {{"constant", ScheduleKind::constant},
                                                           {"optimal", ScheduleKind::optimal},
                                                           {"invscaling", ScheduleKind::invscaling},
                                                           {"linear", ScheduleKind::linear},
                                                           {"pa1", ScheduleKind::passive_aggressive1},
                                                           {"pa2", ScheduleKind::passive_aggressive2}}),
                                      step_size,
                                      power,
                                      schedule_alpha,
                                      0.0,
                                      schedule_first,
                                      schedule_steps};
                if (spec.rule.schedule.kind == ScheduleKind::optimal)
                    spec.rule.schedule.t0 = optimal_start(spec.rule.loss, schedule_alpha);
                spec.rule.fit_intercept = fit_intercept;
                spec.rule.intercept_decay = intercept_decay;
                spec.rule.one_class = one_class;
                spec.rule.intercept_pull = intercept_pull;
                spec.rule.average_from = average_from;
                spec.rule.track_norms = track_norms;
                spec.rule.repeats = repeats;
                spec.rule.soft_curvature =
                    soft_curvature && gradient_jumps(spec.rule.loss) && !is_passive_aggressive(spec.rule.schedule);
                spec.strategy = strategy;
                spec.order = order_named(order);
                spec.seed = seed;
                spec.t = t;
                spec.mapped = mapped;
                spec.memory = memory;
                std::vector<AnyArray> owners;
                if (labels) owners.push_back(*labels);
                if (sample_weight) owners.push_back(*sample_weight);
                if (held_out) {
                    spec.held_out = held_out->data();
                    owners.emplace_back(*held_out);
                }
                new (self) PyTraining(rows, spec, std::move(owners));
            },
            nb::kw_only(), "rows"_a, "target"_a, "labels"_a.none(), "positive"_a, "sample_weight"_a.none(),
            "positive_weight"_a, "negative_weight"_a, "loss"_a, "loss_parameter"_a, "penalty"_a, "l2"_a, "l1"_a,
            "schedule"_a, "step_size"_a, "power"_a, "schedule_alpha"_a, "schedule_first"_a, "schedule_steps"_a,
            "fit_intercept"_a, "intercept_decay"_a, "one_class"_a, "intercept_pull"_a, "average_from"_a,
            "track_norms"_a, "repeats"_a, "soft_curvature"_a, "strategy"_a, "order"_a, "seed"_a, "held_out"_a.none(),
            "t"_a, "mapped"_a, "memory"_a)
        .def("run_pass", &PyTraining::run_pass)
        .def("keep_classes", &PyTraining::keep_classes, "classes"_a)
        .def("set_step_size", &PyTraining::set_step_size, "c"_a, "step_size"_a)
        .def("step_size", &PyTraining::step_size, "c"_a)
        .def("store", &PyTraining::store, "coef"_a.noconvert(), "intercept"_a.noconvert())
        .def("load", &PyTraining::load, "coef"_a, "intercept"_a)
        .def("store_average", &PyTraining::store_average, "coef"_a.noconvert(), "intercept"_a.noconvert())
        .def("load_average", &PyTraining::load_average, "coef"_a, "intercept"_a)
        .def("store_gathered", &PyTraining::store_gathered, "coef"_a.noconvert(), "intercept"_a.noconvert())
        .def("load_gathered", &PyTraining::load_gathered, "coef"_a, "intercept"_a)
        .def("save", &PyTraining::save)
        .def("resume", &PyTraining::resume, "state"_a)
        .def_prop_ro("active", &PyTraining::active)
        .def_prop_ro("t", &PyTraining::t)
        .def_prop_ro("averaged_steps", &PyTraining::averaged_steps);
}

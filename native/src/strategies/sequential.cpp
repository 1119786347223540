// Sequential SGD: row after row of the order, on one thread. What every other strategy is compared with.
#include "common.hpp"

namespace symsgd {

namespace {

template <class Rows>
class Sequential final : public Strategy<Rows> {
public:
    void run_pass(Workspace<Rows>& work, const ShouldStop& should_stop, PassSums& sums) override {
        ModelView<typename Rows::Value> view = work.model.view();
        // this slice and the next one, whose first rows are fetched while this one is trained
        std::int64_t buffer[2 * most_places];
        Slice slice;
        const std::int64_t places = slice_rows(work.rows, view.stride);
        const auto write = [&](std::int64_t place, std::int64_t* out) {
            const std::int64_t begin = std::min(place, work.order.places());
            return work.order.write(begin, std::min(begin + places, work.order.places()), out);
        };
        std::size_t count = write(0, buffer);
        Poll poll(should_stop);
        for (std::int64_t place = 0; place < work.order.places() && !sums.stopped; place += places) {
            const std::size_t next = write(place + places, buffer + count);
            const Block block = slice.read(work, buffer, buffer, count, count + next);
            work.kernels.template of_rows<Rows>().learn(work.rows, block, work.spec.rule, view);
            sums.rows += static_cast<std::int64_t>(count);
            std::copy_n(buffer + count, next, buffer);
            count = next;
            sums.stopped = poll();
        }
        work.model.set_t(view.t);
    }
};

}  // namespace

template <class Rows>
std::unique_ptr<Strategy<Rows>> make_sequential(const StrategySpec&) {
    return std::make_unique<Sequential<Rows>>();
}

SYMSGD_FOR_ALL_ROWS(make_sequential, const StrategySpec&)

}  // namespace symsgd

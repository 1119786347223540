// The check of a merge: the last block of the round, the one that started from furthest behind, is trained once more
// from where the chain says that its predecessor ended. How far that is from the merged model is what the merge has got
// wrong.
//
// Next to nothing but what the last blocks are off by is left by a sweep, and most of it along steep directions, where
// whatever comes next makes it forgotten. So of a round that was swept counts what is left of it after the first block
// of the next one, which both the merged model and the check have been trained on by then.
#pragma once

#include <cmath>
#include <memory>

#include "curvature_merge.hpp"
#include "prediction_error.hpp"

namespace symsgd {

// Rows of the order, and the time that the first of them has in the schedule.
struct Piece {
    std::int64_t begin, rows;
    double t;
};

template <class Rows>
class RoundCheck {
    using V = typename Rows::Value;

public:
    static constexpr std::int64_t parts = PredictionError<Rows>::parts;  // of a comparison, done side by side

    PredictionError<Rows> predictions;
    std::unique_ptr<Model<V>> model;  // where the last block of the round should have started, then where it ends

    bool pending = false;  // it is to be trained, or compared
    bool trained = false;  // and waits for the next round
    bool in_turn = false;  // it is trained instead of a block of the round under way

    // `learns`: the merge is to be calibrated by it.
    void seat(const Rows& rows, const WrittenOrder& order, std::unique_ptr<Model<V>> room, bool learns) {
        predictions.begin(rows, order);
        model = std::move(room);
        learns_ = learns;
    }

    // Of a round of so many blocks, of which `last` was the last, and of its first `reach` features. The weights of the
    // model are in place already; intercept(c) is that of a class.
    template <class Intercept>
    void aim(CurvatureMerge<Rows>& merge, const Piece& last, std::size_t blocks, std::int64_t reach, bool swept,
             Intercept&& intercept) {
        piece_ = last;
        reach_ = reach;
        blocks_ = static_cast<double>(blocks);
        swept_ = swept;
        trained = false;
        pending = true;
        merge.begin_calibration(parts);
        for (int c = 0; c < model->classes(); ++c) model->lanes()[static_cast<std::size_t>(c)].intercept = intercept(c);
    }

    const Piece& piece() const { return piece_; }
    bool swept() const { return swept_; }
    bool is_of_two() const { return blocks_ == 2.0; }
    // A sweep leaves nothing to learn from.
    bool calibrates() const { return learns_ && !swept_; }

    // Of all blocks, as a share of the spread of predictions: those before the last are off by less, as they started
    // from less far behind, and independently of it. What is left by a sweep is not chance.
    double error() const { return compared_ * (swept_ ? 0.5 * blocks_ : all_by_chance()); }
    // The same of what has been compared alone.
    double compared() const { return compared_; }
    // By how much the loss is another for it, as a share of it.
    double loss_change() const { return loss_change_; }
    // What chance alone makes of the round, a share of the spread as the error is.
    double noise() const { return noise_; }
    double pairs() const { return 0.5 * blocks_; }  // of blocks
    // What is left, at the end of the second of two blocks, of what the first has moved predictions by. A model that
    // remembers remembers errors, too.
    double memory() const { return memory_; }

    // With the merged model, or with what has become of it since.
    void compare(Workspace<Rows>& work, CurvatureMerge<Rows>& merge, const ModelView<V>& with, std::int64_t part) {
        predictions.compare(
            work.rows, with, model->view(), reach_, part,
            [&](std::int64_t row, int c, double p) { return loss_of(work, row, c, p); },
            [&](std::int64_t row, int c, double off) {
                if (calibrates()) merge.see_off(work.rows, row, c, part, off);
            });
    }
    void compare_all(Workspace<Rows>& work, CurvatureMerge<Rows>& merge, const ModelView<V>& with) {
        for (std::int64_t part = 0; part < parts; ++part) compare(work, merge, with, part);
        sum_up();
    }
    void sum_up() {
        compared_ = predictions.compared();
        loss_change_ = predictions.loss_changed();
    }

    // What chance alone makes of a round: two blocks started from the same model, on other rows, and differ by the
    // noise of both.
    void measure_noise(Crew::Member& member, Workspace<Rows>& work, const CurvatureMerge<Rows>& merge, int blocks,
                       std::int64_t reach) {
        const auto& own = merge.replicas[static_cast<std::size_t>(blocks - 1)]->lanes();
        const auto& others = merge.replicas[static_cast<std::size_t>(blocks - 2)]->lanes();
        member.phase(
            parts,
            [&](std::int64_t part) {
                predictions.compare(
                    work.rows, work.model.view(), reach, part,
                    [&](int c) { return merge.difference(work, blocks - 1, blocks - 2, c); },
                    [&](int c) {
                        const auto lane = static_cast<std::size_t>(c);
                        return own[lane].intercept - others[lane].intercept;
                    });
            },
            [&] {
                const double noise = predictions.compared() * std::sqrt(0.5 * blocks);
                noise_ = std::isfinite(noise) ? std::min(noise, most_noise) : 0.0;
            });
    }

    // Of rounds of two blocks, the first of which started from these weights.
    void measure_memory(Crew::Member& member, Workspace<Rows>& work, const CurvatureMerge<Rows>& merge,
                        const V* weights, const std::vector<Lane>& lanes) {
        Model<V>&first = *merge.replicas[0], &second = *merge.replicas[1];
        measure_change(member, work, weights, lanes, first.view(), [&](double moved) { memory_ = moved; });
        measure_change(member, work, second.view().weights, second.lanes(), model->view(),
                       [&](double left) { memory_ = memory_ > 0.0 ? left / memory_ : 1.0; });
    }

    // A slice of what it has come to in place of the merged weights, which have the scale of the model.
    void take(Workspace<Rows>& work, std::int64_t slice, std::int64_t slices) {
        const ModelView<V> from = model->view(), to = work.model.view();
        const std::int64_t begin = slice * reach_ / slices, end = (slice + 1) * reach_ / slices;
        for (int c = 0; c < to.classes; ++c) {
            const V by = static_cast<V>(from.lanes[c].scale / to.lanes[c].scale);
            for (std::int64_t at = begin * to.stride + c; at < end * to.stride; at += to.stride)
                to.weights[at] = from.weights[at] * by;
        }
    }

private:
    static constexpr double most_noise = 0.5;  // that counts

    double all_by_chance() const { return std::sqrt(0.5 * blocks_); }

    // How far the predictions of a model are from those of other weights.
    template <class After>
    void measure_change(Crew::Member& member, Workspace<Rows>& work, const V* from, const std::vector<Lane>& lanes,
                        const ModelView<V>& to, After&& after) {
        member.phase(
            parts,
            [&](std::int64_t part) {
                predictions.compare(
                    work.rows, work.model.view(), reach_, part,
                    [&](int c) {
                        return [&, by = to.lanes[c].scale,
                                from_by = lanes[static_cast<std::size_t>(c)].scale](std::int64_t at) {
                            return static_cast<double>(to.weights[at]) * by - static_cast<double>(from[at]) * from_by;
                        };
                    },
                    [&](int c) { return to.lanes[c].intercept - lanes[static_cast<std::size_t>(c)].intercept; });
            },
            [&] { after(predictions.compared()); });
    }

    Piece piece_{};
    std::int64_t reach_ = 0;  // the features that are compared: those that were merged
    double blocks_ = 0.0;
    bool swept_ = false, learns_ = false;
    double compared_ = 0.0, noise_ = 0.0, memory_ = 0.0, loss_change_ = 0.0;
};

}  // namespace symsgd

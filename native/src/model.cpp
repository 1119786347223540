#include "symsgd/model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace symsgd {

int stride_for(int classes) {
    if (classes == 1) return 1;
    if (classes <= 4) return 4;
    if (classes <= 8) return 8;
    return (classes + 15) / 16 * 16;
}

namespace {

int group_for(const ModelNeeds& needs) {
    return stride_for(1 + needs.tangents + needs.diagonal);
}

}  // namespace

int stride_for(int classes, const ModelNeeds& needs) {
    const int group = group_for(needs);
    return group == 1 ? stride_for(classes) : classes * group;
}

template <class V>
Model<V>::Model(std::int64_t features, int classes, ModelNeeds needs, Pages pages)
    : features_(features),
      classes_(classes),
      needs_(needs),
      group_(group_for(needs)),
      stride_(stride_for(classes, needs)),
      weights_(static_cast<std::size_t>(features) * static_cast<std::size_t>(stride_), pages),
      lanes_(static_cast<std::size_t>(classes)),
      tangent_intercepts_(needs.tangents > 0 ? static_cast<std::size_t>(stride_) : 0),
      tangent_sums_(needs.tangents > 0 && needs.average ? static_cast<std::size_t>(stride_) : 0),
      gathered_(needs.gathered ? weights_.size() : 0),
      received_(needs.received ? weights_.size() : 0, pages),
      halves_(needs.halves ? 2 * weights_.size() : 0),
      seen_(needs.halves ? weights_.size() : 0),
      average_(needs.average ? weights_.size() : 0, pages),
      scratch_(3 * static_cast<std::size_t>(stride_)) {}

template <class V>
ModelView<V> Model<V>::view() {
    return {.features = features_,
            .classes = classes_,
            .stride = stride_,
            .group = group_,
            .tangents = needs_.tangents,
            .diagonal = needs_.diagonal,
            .weights = weights_.data(),
            .lanes = lanes_.data(),
            .tangent_intercepts = tangent_intercepts_.data(),
            .tangent_sums = tangent_sums_.data(),
            .gathered = gathered_.data(),
            .received = received_.data(),
            .halves = halves_.data(),
            .seen = seen_.data(),
            .average = average_.data(),
            .scratch = scratch_.data(),
            .rare = nullptr,
            .rare_stride = 0,
            .shared_intercepts = nullptr,
            .t = t_,
            .held = held_};
}

template <class V>
void Model<V>::load(const V* coef, const double* intercept) {
    for (int c = 0; c < classes_; ++c) {
        Lane& lane = lanes_[static_cast<std::size_t>(c)];
        lane.scale = lane.inverse = 1.0;
        lane.intercept = intercept[c];
        for (std::int64_t i = 0; i < features_; ++i) {
            const auto at = static_cast<std::size_t>(i * stride_ + c);
            const V weight = coef[c * features_ + number(i)];
            weights_[at] = weight;
            if (halves_.size() != 0) {
                halves_[2 * at] = weight > 0 ? weight : V{};
                halves_[2 * at + 1] = weight < 0 ? -weight : V{};
            }
        }
    }
}

template <class V>
bool Model<V>::store(V* coef, double* intercept, const std::vector<std::int64_t>& places) const {
    bool finite = true;
    for (int c = 0; c < classes_; ++c) {
        const Lane& lane = lanes_[static_cast<std::size_t>(c)];
        const V scale = static_cast<V>(lane.scale);
        const std::int64_t place = places[static_cast<std::size_t>(c)];
        intercept[place] = lane.intercept;
        const V* weights = weights_.data() + c;
        V* out = coef + place * features_;
        V zero = 0;  // stays 0 while every weight is finite: inf × 0 and nan × 0 are nan
        for (std::int64_t i = 0; i < features_; ++i) {
            const V weight = weights[i * stride_] * scale;
            out[number(i)] = weight;
            zero += weight * V{0};
        }
        finite = finite && zero == V{0} && std::isfinite(lane.intercept);
    }
    return finite;
}

template <class V>
void Model<V>::load_average(const V* coef, const double* intercept, double steps) {
    for (int c = 0; c < classes_; ++c) {
        lanes_[static_cast<std::size_t>(c)].intercept_sum = steps * intercept[c];
        for (std::int64_t i = 0; i < features_; ++i)
            average_[static_cast<std::size_t>(i * stride_ + c)] =
                steps * static_cast<double>(coef[c * features_ + number(i)]);
    }
}

template <class V>
void Model<V>::store_average(V* coef, double* intercept, const std::vector<std::int64_t>& places, double steps) const {
    for (int c = 0; c < classes_; ++c) {
        const Lane& lane = lanes_[static_cast<std::size_t>(c)];
        const std::int64_t place = places[static_cast<std::size_t>(c)];
        intercept[place] = lane.intercept_sum / steps;
        for (std::int64_t i = 0; i < features_; ++i) {
            const auto at = static_cast<std::size_t>(i * stride_ + c);
            const double sum = average_[at] + lane.average_scales * static_cast<double>(weights_[at]);
            coef[place * features_ + number(i)] = static_cast<V>(sum / steps);
        }
    }
}

template <class V>
void Model<V>::load_gathered(const V* coef, const double* intercept) {
    for (int c = 0; c < classes_; ++c) {
        lanes_[static_cast<std::size_t>(c)].gathered = intercept[c];
        for (std::int64_t i = 0; i < features_; ++i)
            gathered_[static_cast<std::size_t>(i * stride_ + c)] = coef[c * features_ + number(i)];
    }
}

template <class V>
void Model<V>::store_gathered(V* coef, double* intercept, const std::vector<std::int64_t>& places) const {
    for (int c = 0; c < classes_; ++c) {
        const std::int64_t place = places[static_cast<std::size_t>(c)];
        intercept[place] = lanes_[static_cast<std::size_t>(c)].gathered;
        for (std::int64_t i = 0; i < features_; ++i)
            coef[place * features_ + number(i)] = gathered_[static_cast<std::size_t>(i * stride_ + c)];
    }
}

template <class V>
void Model<V>::renumber(const std::int32_t* original) {
    original_ = original;
    const auto reorder = [&](auto& numbers) {
        if (numbers.size() == 0) return;
        std::remove_reference_t<decltype(numbers)> old(numbers.size());
        std::swap(old, numbers);
        const std::size_t each = old.size() / static_cast<std::size_t>(features_);
        for (std::int64_t i = 0; i < features_; ++i)
            std::copy_n(old.data() + static_cast<std::size_t>(original[i]) * each, each,
                        numbers.data() + static_cast<std::size_t>(i) * each);
    };
    reorder(weights_);
    reorder(gathered_);
    reorder(received_);
    reorder(halves_);
    reorder(seen_);
    reorder(average_);
}

template <class V>
void Model<V>::copy(const Model& other) {
    std::copy_n(other.weights_.data(), weights_.size(), weights_.data());
    lanes_ = other.lanes_;
}

template <class V>
void Model<V>::copy_classes(const Model& other, const std::vector<int>& classes) {
    original_ = other.original_;
    for (int c = 0; c < classes_; ++c) {
        const int from = classes[static_cast<std::size_t>(c)];
        lanes_[static_cast<std::size_t>(c)] = other.lanes_[static_cast<std::size_t>(from)];
        for (std::int64_t i = 0; i < features_; ++i) {
            const auto at = static_cast<std::size_t>(i * stride_ + c);
            const auto there = static_cast<std::size_t>(i * other.stride_ + from);
            weights_[at] = other.weights_[there];
            if (received_.size() != 0) received_[at] = other.received_[there];
            if (gathered_.size() != 0) gathered_[at] = other.gathered_[there];
            if (average_.size() != 0) average_[at] = other.average_[there];
            if (halves_.size() != 0) {
                halves_[2 * at] = other.halves_[2 * there];
                halves_[2 * at + 1] = other.halves_[2 * there + 1];
                seen_[at] = other.seen_[there];
            }
        }
    }
}

template class Model<float>;
template class Model<double>;

}  // namespace symsgd

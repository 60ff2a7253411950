"""torchmetrics: metrics of classification, regression, images, text and retrieval, by batch and as functions."""

import torch
import torchmetrics
from torchmetrics import classification, functional, image, regression, retrieval, text

torch.manual_seed(0)
CLASSES = 4
batches = [(torch.randn(16, CLASSES).softmax(1), torch.randint(CLASSES, (16,))) for _ in range(3)]


def show(name, value):
    if isinstance(value, dict):
        for key, inner in value.items():
            show(f"{name} {key}", inner)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            show(f"{name} {number}", inner)
    else:
        print(name, tuple(value.shape), value.tolist())


collection = torchmetrics.MetricCollection(
    {
        "accuracy": classification.MulticlassAccuracy(CLASSES),
        "top2": classification.MulticlassAccuracy(CLASSES, top_k=2, average="micro"),
        "f1": classification.MulticlassF1Score(CLASSES, average="weighted"),
        "auroc": classification.MulticlassAUROC(CLASSES),
        "binned": classification.MulticlassAveragePrecision(CLASSES, thresholds=11),
        "calibration": classification.MulticlassCalibrationError(CLASSES, n_bins=5),
        "confusion": classification.MulticlassConfusionMatrix(CLASSES, normalize="true"),
        "kappa": classification.MulticlassCohenKappa(CLASSES),
        "matthews": classification.MulticlassMatthewsCorrCoef(CLASSES),
        "hinge": classification.MulticlassHingeLoss(CLASSES),
        "roc": classification.MulticlassROC(CLASSES, thresholds=5),
    }
)
for probabilities, labels in batches:
    show("batch", collection(probabilities, labels))
show("all", collection.compute())
collection.reset()

scores, truth = torch.rand(60), torch.randint(2, (60,))
show("binary roc", functional.roc(scores, truth, task="binary", thresholds=7))
show("binary curve", functional.precision_recall_curve(scores, truth, task="binary")[2].sum())
show("specificity", functional.specificity(scores, truth, task="binary", threshold=0.4))
multilabel = torch.rand(20, 3), torch.randint(2, (20, 3))
show("ranking", functional.classification.multilabel_ranking_average_precision(*multilabel, num_labels=3))
show("coverage", functional.classification.multilabel_coverage_error(*multilabel, num_labels=3))
show("exact", functional.classification.multilabel_exact_match(*multilabel, num_labels=3))

estimates, values = torch.rand(50, 2) + 0.1, torch.rand(50, 2) + 0.1
for metric in (
    regression.MeanSquaredError(squared=False),
    regression.MeanAbsolutePercentageError(),
    regression.R2Score(multioutput="raw_values"),
    regression.ExplainedVariance(),
    regression.PearsonCorrCoef(num_outputs=2),
    regression.SpearmanCorrCoef(num_outputs=2),
    regression.KendallRankCorrCoef(num_outputs=2),
    regression.ConcordanceCorrCoef(num_outputs=2),
    regression.CosineSimilarity(),
    regression.LogCoshError(num_outputs=2),
    regression.TweedieDevianceScore(power=1.5),
    regression.KLDivergence(),
):
    metric.update(estimates[:20], values[:20])
    metric.update(estimates[20:], values[20:])
    show(type(metric).__name__, metric.compute())

clean = torch.rand(2, 3, 48, 48)
pictures = (clean + 0.1 * torch.randn(2, 3, 48, 48)).clamp(0, 1), clean
show("psnr", image.PeakSignalNoiseRatio(data_range=1.0)(*pictures))
show("ssim", image.StructuralSimilarityIndexMeasure(data_range=1.0, gaussian_kernel=True)(*pictures))
show("variation", image.TotalVariation()(pictures[0]))
show("uqi", image.UniversalImageQualityIndex()(*pictures))

said, meant = ["the cat sat on the mat", "a dog barks"], [["a cat sat on the mat"], ["the dog barks loudly"]]
show("bleu", text.BLEUScore(n_gram=2)(said, meant))
show("chrf", text.CHRFScore()(said, meant))
show("wer", text.WordErrorRate()(said, [m[0] for m in meant]))
show("edit", text.EditDistance()(said, [m[0] for m in meant]))
show("perplexity", text.Perplexity()(torch.randn(2, 5, 7), torch.randint(7, (2, 5))))

queries = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
relevance, found = torch.rand(9), torch.tensor([1, 0, 1, 0, 0, 1, 1, 1, 0])
for metric in (retrieval.RetrievalMAP(), retrieval.RetrievalMRR(), retrieval.RetrievalNormalizedDCG(top_k=2)):
    show(type(metric).__name__, metric(relevance, found, indexes=queries))

inputs = pictures[0].clone().requires_grad_()
similarity = functional.structural_similarity_index_measure(inputs, clean, data_range=1.0)
similarity.backward()
print("gradient", similarity.item(), inputs.grad.norm().item())

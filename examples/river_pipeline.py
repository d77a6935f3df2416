"""The regressor in a River pipeline, after a scaler: dictionaries of features, one observation at a time."""

from river import datasets, evaluate, linear_model, metrics, preprocessing

from streamgp.adapters.river import GPRegressor

for name, regressor in (
    ("streamgp", GPRegressor(rank=100, forgetting=0.995, seed=0)),
    ("linear regression", linear_model.LinearRegression()),
):
    model = preprocessing.StandardScaler() | regressor
    error = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    print(f"{name}: mean absolute error {error.get():.3f}")

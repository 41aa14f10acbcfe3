//! The control plane: monitors, published views, metrics and health.

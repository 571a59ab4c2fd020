// Package config is the one reader of configuration files and of the environment. It owns one struct tree, Config, whose
// keys are the same in sluice.yaml, in the environment and as flags; it knows where each value came from, reports all
// mistakes at once, and keeps secrets as references that are read on use. No secret is ever printed.
//
// Precedence: flag, environment, file, default.
package config

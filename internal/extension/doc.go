// Package extension owns the engine's extensions: which files belong to this build, where they are found, and that
// nothing else is ever loaded. They are the officially signed DuckDB extensions, pinned by version and hash; a running
// Sluice never downloads one, only the build (command fetch) and a release binary's embedded copies put them in place.
package extension

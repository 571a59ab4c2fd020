package extension

import "path/filepath"

// Engine is the version of DuckDB that the extensions fit, and Platform the one that is pinned.
const (
	Engine   = "1.5.5"
	Platform = "linux_amd64"
)

// Extension is one pinned extension file.
type Extension struct {
	Name    string // as in LOAD
	Version string // as the engine reports it once loaded
	Wheel   string // Python package that carries the file; its version is Engine
	// WheelSHA256 and SHA256 are the hashes of the wheel and of the unpacked file, in hex.
	WheelSHA256 string
	SHA256      string
	Size        int64 // of the unpacked file
}

// Pinned are the extensions of this build. They form one set with the engine: none is replaced alone.
var Pinned = []Extension{
	{
		Name: "ducklake", Version: "d8a1881e", Wheel: "duckdb-extension-ducklake",
		WheelSHA256: "b631ae4dd4bd649b3db35a789dbcc859476fe231ef449b3f03f4fe4e2ef4a946",
		SHA256:      "e51bf9e8d933d0e83780ae096455501b542cf962569a2ce5613532d702c08302", Size: 36436086,
	},
	{
		Name: "postgres_scanner", Version: "41223e5", Wheel: "duckdb-extension-postgres-scanner",
		WheelSHA256: "fea9413d1b5bded7ead650aff91b3d7578c5149d832f666100b362f64404bf18",
		SHA256:      "b1ced4cfc6311313e117c2afb3eac76508718778dde0716421503c7dbfb5605c", Size: 41696558,
	},
	{
		Name: "httpfs", Version: "827222f", Wheel: "duckdb-extension-httpfs",
		WheelSHA256: "84913dbe172ccb54368de2c4a020c38ca8b0e76f99df548f7fac37934cc7826f",
		SHA256:      "887c392b1e49128d11667c81e3698d8b00dfdeb456771acf66d05a0f74f7b7d8", Size: 21570542,
	},
}

// Path is where e's file is below an extension directory.
func (e Extension) Path(dir string) string {
	return filepath.Join(dir, "v"+Engine, Platform, e.Name+".duckdb_extension")
}

// Version is the version that the engine reports for the named extension, or "" for one that is not pinned.
func Version(name string) string {
	for _, e := range Pinned {
		if e.Name == name {
			return e.Version
		}
	}
	return ""
}

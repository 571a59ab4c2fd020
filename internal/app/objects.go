package app

import (
	"context"
	"fmt"

	"sluice/internal/config"
	"sluice/internal/objstore"
)

// ObjectOptions say how the configuration reaches the buckets of S3. The secret is read when it is used, so that a rotated
// one needs no restart.
func ObjectOptions(cfg *config.Config) objstore.Options {
	return objstore.Options{S3: func(string) (objstore.S3Options, error) { return storeAccess(cfg), nil }}
}

func storeAccess(cfg *config.Config) objstore.S3Options {
	c := cfg.Store.Credentials
	o := objstore.S3Options{Endpoint: cfg.Store.Endpoint, Region: cfg.Store.Region, PathStyle: cfg.Store.PathStyle}
	switch c.Mode {
	case config.CredentialsStatic:
		o.Credentials = func(context.Context) (objstore.Credentials, error) {
			secret, err := c.Secret.Read()
			if err != nil {
				return objstore.Credentials{}, fmt.Errorf("read store.credentials.secret: %w", err)
			}
			return objstore.Credentials{AccessKey: c.KeyID, SecretKey: secret}, nil
		}
	case config.CredentialsRole:
		o.Role, o.Session = c.Role, c.Session.D()
	case config.CredentialsAnonymous:
		o.Anonymous = true
	}
	return o
}

// profileAccess is the access to a bucket with the credentials of an AWS profile, which may name region and endpoint, too.
func profileAccess(profile string) objstore.Options {
	return objstore.Options{S3: func(string) (objstore.S3Options, error) { return objstore.S3Options{Profile: profile}, nil }}
}

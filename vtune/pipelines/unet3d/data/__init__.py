"""From a record's number to a training patch: volumes, patches, augmentation."""
